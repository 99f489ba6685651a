// SPDX-License-Identifier: GPL-2.0

//! `kofi stat`: shows the activity of endpoints and completion queues at regular intervals.

use crate::{
    abi::ObjectValue,
    error::Error,
    json,
    kernel::Kernel,
    object_tree::{
        read_objects,
        ObjectNode, //
    },
    size,
    table::{
        format_short,
        or_dash,
        right_aligned, //
    },
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::Write,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    },
    thread::sleep,
    time::{
        Duration,
        Instant, //
    },
};

/// Interval at which the stop flag is checked.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Escape sequence that moves the cursor to the top left and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(clap::Args)]
pub struct Args {
    /// Seconds between two updates
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = size::parse_msec)]
    interval: u32,

    /// Number of updates; default: no limit
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Print once, with the totals since the objects were opened
    #[arg(long, conflicts_with_all = ["count", "interval"])]
    once: bool,

    /// Only objects of this domain, which has the name of the RDMA device
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,

    /// Print a JSON object on a line of its own for each update
    #[arg(long)]
    json: bool,
}

/// An object of a domain and its values at one point in time.
struct ObjectSample {
    node: ObjectNode,
    domain: String,
}

impl ObjectSample {
    fn get(&self, id: ObjectValue) -> u64 {
        self.node.value(id).unwrap_or_default()
    }

    fn sum(&self, ids: &[ObjectValue]) -> u64 {
        ids.iter().map(|&id| self.get(id)).sum()
    }
}

/// Objects at one point in time.
struct Snapshot {
    samples: Vec<ObjectSample>,
    time: Duration,
}

impl Snapshot {
    fn new(kernel: &dyn Kernel, args: &Args, time: Duration) -> Result<Self, Error> {
        let mut samples = Vec::new();
        for root in read_objects(kernel)? {
            for domain in root.children {
                let name = domain.name.unwrap_or_default();
                let is_wanted = args.domain.as_ref().is_none_or(|wanted| *wanted == name);
                let objects = domain.children.into_iter().filter(|_| is_wanted);
                samples.extend(objects.map(|node| ObjectSample {
                    node,
                    domain: name.clone(),
                }));
            }
        }
        Ok(Self { samples, time })
    }
}

/// Difference between two snapshots, or between one snapshot and the opening of the objects.
struct Delta<'a> {
    before: BTreeMap<u64, &'a ObjectSample>,
    /// Seconds between the snapshots, or `None` for totals since the objects were opened.
    seconds: Option<f64>,
}

impl<'a> Delta<'a> {
    fn new(before: Option<&'a Snapshot>, now: &Snapshot) -> Self {
        let samples = before.into_iter().flat_map(|snapshot| &snapshot.samples);
        Self {
            before: samples.map(|sample| (sample.node.id, sample)).collect(),
            seconds: before.map(|snapshot| {
                (now.time.saturating_sub(snapshot.time))
                    .as_secs_f64()
                    .max(1e-6)
            }),
        }
    }

    /// Returns the increase of the sum of some values: per second, or in total.
    #[expect(
        clippy::cast_precision_loss,
        reason = "rates are shown with few digits"
    )]
    fn rate(&self, sample: &ObjectSample, ids: &[ObjectValue]) -> f64 {
        let before = self.before.get(&sample.node.id);
        let more = sample
            .sum(ids)
            .saturating_sub(before.map_or(0, |before| before.sum(ids)));
        more as f64 / self.seconds.unwrap_or(1.0)
    }

    fn format_rate(&self, sample: &ObjectSample, ids: &[ObjectValue]) -> String {
        format_short(self.rate(sample, ids))
    }
}

/// Formats the used and the total entries of a queue.
fn fill_level(sample: &ObjectSample, depth: ObjectValue, size: ObjectValue) -> String {
    format!("{}/{}", sample.get(depth), sample.get(size))
}

/// Returns the column names, without the `/s` of rates if the columns are totals.
fn column_names<const N: usize>(delta: &Delta<'_>, names: [&'static str; N]) -> [&'static str; N] {
    names.map(|name| match delta.seconds {
        Some(_) => name,
        None => name.trim_end_matches("/s"),
    })
}

fn endpoints(delta: &Delta<'_>, now: &Snapshot) -> String {
    let names = [
        "ep",
        "owner",
        "domain",
        "state",
        "peer",
        "tx",
        "rx",
        "sends/s",
        "receives/s",
        "rma/s",
        "atomics/s",
        "B out/s",
        "B in/s",
        "errors",
        "again/s",
    ];
    let rows = now.samples.iter().filter(|sample| sample.node.kind == "ep");
    let row = |sample: &ObjectSample| {
        vec![
            sample.node.id.to_string(),
            sample.node.owner.label(),
            sample.domain.clone(),
            sample.node.state.clone(),
            or_dash(sample.node.peer.clone()),
            fill_level(
                sample,
                ObjectValue::KOFI_VALUE_TX_DEPTH,
                ObjectValue::KOFI_VALUE_TX_SIZE,
            ),
            fill_level(
                sample,
                ObjectValue::KOFI_VALUE_RX_DEPTH,
                ObjectValue::KOFI_VALUE_RX_SIZE,
            ),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_SENDS]),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_RECEIVES]),
            delta.format_rate(
                sample,
                &[
                    ObjectValue::KOFI_VALUE_WRITES,
                    ObjectValue::KOFI_VALUE_READS,
                ],
            ),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_ATOMICS]),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_TX_BYTES]),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_RX_BYTES]),
            sample
                .sum(&[
                    ObjectValue::KOFI_VALUE_TX_ERRORS,
                    ObjectValue::KOFI_VALUE_RX_ERRORS,
                ])
                .to_string(),
            delta.format_rate(
                sample,
                &[
                    ObjectValue::KOFI_VALUE_TX_AGAIN,
                    ObjectValue::KOFI_VALUE_RX_AGAIN,
                ],
            ),
        ]
    };
    right_aligned(&column_names(delta, names), rows.map(row))
}

fn completion_queues(delta: &Delta<'_>, now: &Snapshot) -> String {
    let names = [
        "cq",
        "owner",
        "domain",
        "size",
        "entries/s",
        "errors",
        "overruns",
        "callbacks/s",
    ];
    let rows = now.samples.iter().filter(|sample| sample.node.kind == "cq");
    let row = |sample: &ObjectSample| {
        vec![
            sample.node.id.to_string(),
            sample.node.owner.label(),
            sample.domain.clone(),
            sample.get(ObjectValue::KOFI_VALUE_SIZE).to_string(),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_ENTRIES]),
            sample.get(ObjectValue::KOFI_VALUE_ERRORS).to_string(),
            sample.get(ObjectValue::KOFI_VALUE_OVERRUNS).to_string(),
            delta.format_rate(sample, &[ObjectValue::KOFI_VALUE_CALLBACKS]),
        ]
    };
    right_aligned(&column_names(delta, names), rows.map(row))
}

#[derive(Serialize)]
struct SnapshotJson<'a> {
    /// Seconds since the previous update, or `None` for totals.
    seconds: Option<f64>,
    objects: Vec<ObjectJson<'a>>,
}

#[derive(Serialize)]
struct ObjectJson<'a> {
    domain: &'a str,
    #[serde(flatten)]
    node: &'a ObjectNode,
    /// Rates per second, by the names of the values.
    rates: Option<BTreeMap<&'a str, f64>>,
}

fn json(delta: &Delta<'_>, now: &Snapshot) -> Result<String, Error> {
    let rates = |sample: &'_ ObjectSample| {
        let values = sample.node.values.iter();
        let cumulative = values.filter(|value| value.is_cumulative());
        let pairs = cumulative.map(|value| (value.name.clone(), delta.rate(sample, &[value.id])));
        pairs.collect::<Vec<_>>()
    };
    let all: Vec<_> = now.samples.iter().map(rates).collect();
    let objects = now
        .samples
        .iter()
        .zip(&all)
        .map(|(sample, rates)| ObjectJson {
            domain: &sample.domain,
            node: &sample.node,
            rates: delta.seconds.map(|_| {
                rates
                    .iter()
                    .map(|(name, rate)| (name.as_str(), *rate))
                    .collect()
            }),
        });
    let shown = SnapshotJson {
        seconds: delta.seconds,
        objects: objects.collect(),
    };
    json::line(&shown)
}

fn format_snapshot(
    args: &Args,
    before: Option<&Snapshot>,
    now: &Snapshot,
) -> Result<String, Error> {
    let delta = Delta::new(before, now);
    if args.json {
        return json(&delta, now);
    }
    if !now
        .samples
        .iter()
        .any(|sample| ["ep", "cq"].contains(&sample.node.kind.as_str()))
    {
        return Ok("no endpoint or queue is open".to_string());
    }
    Ok(format!(
        "{}\n\n{}",
        endpoints(&delta, now),
        completion_queues(&delta, now)
    ))
}

/// Prints updates to `out` until `stop` is set or the number of updates is reached. `is_terminal`
/// makes each update replace the previous one.
pub fn run(
    kernel: &dyn Kernel,
    args: &Args,
    stop: &AtomicBool,
    is_terminal: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut before = Snapshot::new(kernel, args, start.elapsed())?;
    if args.once {
        writeln!(out, "{}", format_snapshot(args, None, &before)?)?;
        return Ok(());
    }
    let mut left = args.count.unwrap_or(u64::MAX);
    let interval = Duration::from_millis(args.interval.into());
    while left > 0 && sleep_until(before.time + interval, start, stop) {
        let now = Snapshot::new(kernel, args, start.elapsed())?;
        let text = format_snapshot(args, Some(&before), &now)?;
        if args.json {
            writeln!(out, "{text}")?;
        } else if is_terminal {
            writeln!(out, "{CLEAR}{text}")?;
        } else {
            writeln!(out, "{text}\n")?;
        }
        out.flush()?;
        before = now;
        left -= 1;
    }
    Ok(())
}

/// Sleeps until the time `until` after `start`. Returns false if `stop` is set first.
fn sleep_until(until: Duration, start: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        match until.saturating_sub(start.elapsed()) {
            Duration::ZERO => return true,
            left => sleep(left.min(STOP_POLL)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        let line = ["stat"].iter().chain(line);
        TestCli::try_parse_from(line).unwrap().args
    }

    /// Returns the output two seconds after the objects were opened: totals, or with `since` rates.
    fn shown(line: &[&str], since: bool) -> String {
        let (kernel, args) = (FakeKernel::with_objects(), args(line));
        let before = Snapshot::new(&kernel, &args, Duration::ZERO).unwrap();
        kernel.advance();
        let now = Snapshot::new(&kernel, &args, Duration::from_secs(2)).unwrap();
        format_snapshot(&args, Some(&before).filter(|_| since), &now).unwrap() + "\n"
    }

    #[test]
    fn once_prints_totals() {
        assert_eq!(
            shown(&["--once"], false),
            include_str!("golden/stat_once.txt")
        );
    }

    #[test]
    fn the_second_snapshot_gives_rates() {
        assert_eq!(shown(&[], true), include_str!("golden/stat.txt"));
    }

    #[test]
    fn json_has_rates() {
        assert_eq!(shown(&["--json"], true), include_str!("golden/stat.json"));
    }

    #[test]
    fn other_domains_are_left_out() {
        assert_eq!(
            shown(&["-d", "mlx5_0"], true),
            "no endpoint or queue is open\n"
        );
    }

    #[test]
    fn the_number_of_updates_is_limited() {
        let mut out = Vec::new();
        let args = args(&["-n", "3", "-i", "0.01"]);
        run(
            &FakeKernel::with_objects(),
            &args,
            &AtomicBool::new(false),
            true,
            &mut out,
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(CLEAR).count(), 3);
        assert_eq!(text.matches("callbacks/s").count(), 3);
    }

    #[test]
    fn ctrl_c_ends_the_updates() {
        let mut out = Vec::new();
        let args = args(&["-i", "1000"]);
        run(
            &FakeKernel::with_objects(),
            &args,
            &AtomicBool::new(true),
            false,
            &mut out,
        )
        .unwrap();
        assert!(out.is_empty());
    }
}
