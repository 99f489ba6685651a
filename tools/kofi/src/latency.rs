// SPDX-License-Identifier: GPL-2.0

//! Statistics from the kernel's histogram of times.

use crate::abi::{
    Watch,
    KOFI_TEST_BUCKETS, //
};
use serde::Serialize;

pub const BUCKETS: usize = KOFI_TEST_BUCKETS as usize;

/// Returns the smallest value in a bucket.
pub fn bucket_min(bucket: usize) -> u64 {
    let (power, part) = (bucket / 16, bucket % 16);
    if bucket < 32 {
        bucket as u64
    } else {
        (16 + part as u64) << (power - 1)
    }
}

/// Returns the largest value in a bucket.
pub fn bucket_max(bucket: usize) -> u64 {
    if bucket + 1 < BUCKETS {
        bucket_min(bucket + 1) - 1
    } else {
        u64::MAX
    }
}

fn bucket_mid(bucket: usize) -> u64 {
    bucket_min(bucket) + (bucket_max(bucket) - bucket_min(bucket)) / 2
}

/// Statistics of the times of round trips or operations, in ns.
#[derive(Serialize, Clone, Copy, Debug, PartialEq)]
pub struct LatencyStats {
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p999: u64,
    pub max: u64,
}

impl LatencyStats {
    /// Returns `None` if the histogram is empty.
    pub fn new(watch: &Watch, buckets: &[u64]) -> Option<Self> {
        let at = |permille| {
            let value = bucket_mid(percentile(buckets, permille)?);
            Some(value.min(watch.max).max(watch.min))
        };
        Some(Self {
            min: watch.min,
            p50: at(500)?,
            p90: at(900)?,
            p99: at(990)?,
            p999: at(999)?,
            max: watch.max,
        })
    }
}

/// Returns the median, or `None` if the histogram is empty. Interpolates within the bucket, as if
/// its values were evenly distributed.
pub fn median(buckets: &[u64]) -> Option<f64> {
    let all: u64 = buckets.iter().sum();
    let at = percentile(buckets, 500)?;
    let below: u64 = buckets.iter().take(at).sum();
    let fraction = (to_f64(all) / 2.0 - to_f64(below)) / to_f64(*buckets.get(at)?);
    let (min, max) = (to_f64(bucket_min(at)), to_f64(bucket_max(at)));
    Some(min + (max - min) * fraction)
}

/// Returns the bucket with the value that `permille` of 1000 values do not exceed, by the
/// nearest-rank method.
fn percentile(buckets: &[u64], permille: u32) -> Option<usize> {
    let counts = || buckets.iter().map(|&count| u128::from(count));
    let rank = (counts().sum::<u128>() * u128::from(permille)).div_ceil(1000);
    let mut below = 0;
    counts().position(|count| {
        below += count;
        below > 0 && below >= rank
    })
}

/// Part of a measured time that is printed.
#[derive(Clone, Copy)]
pub enum Scale {
    /// Half of a round trip: the latency of a message.
    HalfRoundTrip,
    /// The time of an operation whose response the client waits for.
    Whole,
}

/// Formats a time in ns as µs.
pub fn format_time(time: u64, scale: Scale) -> String {
    format_time_f64(to_f64(time), scale)
}

/// Formats a computed time in ns as µs.
pub fn format_time_f64(time: f64, scale: Scale) -> String {
    let parts = match scale {
        Scale::HalfRoundTrip => 2000.0,
        Scale::Whole => 1000.0,
    };
    format!("{:.2}", time / parts)
}

/// Returns the rate per second, or `None` if `nsec` is 0.
pub fn per_second(count: u64, nsec: u64) -> Option<f64> {
    (nsec > 0).then(|| to_f64(count) * 1e9 / to_f64(nsec))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "measured values need no more than 15 digits"
)]
fn to_f64(number: u64) -> f64 {
    number as f64
}

/// Returns the bucket of a value.
#[cfg(test)]
pub fn bucket_of(value: u64) -> usize {
    let shift = value.max(16).ilog2() - 4;
    let part = usize::try_from(value >> shift).unwrap();
    shift as usize * 16 + part
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pseudorandom values of every magnitude, the same in each run.
    fn values(count: u64) -> Vec<u64> {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(count);
            state >> 33
        };
        (0..count).map(|_| next() << (next() % 20) >> 20).collect()
    }

    fn histogram(values: &[u64]) -> (Watch, Vec<u64>) {
        let mut buckets = vec![0; BUCKETS];
        for &value in values {
            buckets[bucket_of(value)] += 1;
        }
        let watch = Watch {
            min: values.iter().copied().min().unwrap_or_default(),
            max: values.iter().copied().max().unwrap_or_default(),
            ..Watch::default()
        };
        (watch, buckets)
    }

    #[test]
    fn bucket_minima_match_the_header() {
        for (bucket, value) in [
            (0, 0),
            (31, 31),
            (32, 32),
            (33, 34),
            (47, 62),
            (48, 64),
            (64, 128),
            (160, 8192),
            (BUCKETS - 1, 31 << 59),
        ] {
            assert_eq!(bucket_min(bucket), value, "{bucket}");
        }
    }

    #[test]
    fn buckets_cover_all_values_without_gaps() {
        for bucket in 1..BUCKETS {
            assert!(bucket_min(bucket) > bucket_min(bucket - 1), "{bucket}");
            assert_eq!(bucket_max(bucket - 1), bucket_min(bucket) - 1, "{bucket}");
        }
        assert_eq!(bucket_max(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn values_are_in_the_bucket_whose_range_contains_them() {
        let powers = (0..u64::BITS).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in (0..=100_000).chain(powers).chain([u64::MAX]) {
            let bucket = bucket_of(value);
            assert!(
                (bucket_min(bucket)..=bucket_max(bucket)).contains(&value),
                "{value}"
            );
            assert!((bucket_min(bucket)..=bucket_max(bucket)).contains(&bucket_mid(bucket)));
        }
    }

    #[test]
    fn the_width_of_a_bucket_is_at_most_a_sixteenth_of_its_minimum() {
        for bucket in 16..BUCKETS {
            assert!(
                (bucket_max(bucket) - bucket_min(bucket)) <= bucket_min(bucket) / 16,
                "{bucket}"
            );
        }
    }

    #[test]
    fn percentiles_are_exact_to_within_a_bucket() {
        for count in [1, 2, 3, 9, 10, 11, 999, 1000, 1001, 5000] {
            let mut values = values(count);
            let (_, buckets) = histogram(&values);
            values.sort_unstable();
            for permille in [1, 500, 900, 990, 999, 1000] {
                let rank = (values.len() * permille as usize).div_ceil(1000);
                let exact = bucket_of(values[rank - 1]);
                assert_eq!(
                    percentile(&buckets, permille),
                    Some(exact),
                    "{permille} of {count}"
                );
            }
        }
    }

    #[test]
    fn the_median_is_interpolated_within_its_bucket() {
        assert_eq!(median(&[0; BUCKETS]), None);
        // The bucket covers 1024 to 1087. More values in the next bucket move the median up.
        let mut buckets = [0; BUCKETS];
        (buckets[bucket_of(1024)], buckets[bucket_of(1088)]) = (100, 0);
        assert_eq!(median(&buckets), Some(1055.5));
        buckets[bucket_of(1088)] = 50;
        assert_eq!(median(&buckets), Some(1024.0 + 63.0 * 0.75));
        buckets[bucket_of(1)] = 100;
        assert_eq!(median(&buckets), Some(1024.0 + 63.0 * 0.25));
    }

    #[test]
    fn percentiles_are_sorted_between_minimum_and_maximum() {
        for count in 1..200 {
            let (watch, buckets) = histogram(&values(count));
            let all = LatencyStats::new(&watch, &buckets).unwrap();
            let all = [all.min, all.p50, all.p90, all.p99, all.p999, all.max];
            assert!(all.is_sorted(), "{all:?}");
        }
    }

    #[test]
    fn equal_values_give_exact_percentiles() {
        let (watch, buckets) = histogram(&[20_001; 7]);
        let all = LatencyStats::new(&watch, &buckets).unwrap();
        assert_eq!([all.min, all.p50, all.p999, all.max], [20_001; 4]);
    }

    #[test]
    fn an_empty_histogram_has_no_percentiles() {
        let (watch, buckets) = histogram(&[]);
        assert_eq!(LatencyStats::new(&watch, &buckets), None);
    }

    #[test]
    fn latency_is_half_a_round_trip_in_microseconds() {
        assert_eq!(format_time(20_500, Scale::HalfRoundTrip), "10.25");
        assert_eq!(format_time(20_500, Scale::Whole), "20.50");
        assert_eq!(format_time(1, Scale::Whole), "0.00");
    }

    #[test]
    fn rates_are_per_second() {
        assert_eq!(per_second(3, 2_000_000_000), Some(1.5));
        assert_eq!(per_second(0, 5), Some(0.0));
        assert_eq!(per_second(3, 0), None);
    }
}
