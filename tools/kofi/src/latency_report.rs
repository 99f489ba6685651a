// SPDX-License-Identifier: GPL-2.0

//! Reports of the commands that measure latencies.

use crate::{
    client::{
        Measurement,
        Results, //
    },
    error::Error,
    histogram::{
        self,
        Histogram, //
    },
    latency::{
        self,
        LatencyStats,
        Scale, //
    },
    runner::Report,
    table::or_dash,
};
use serde::Serialize;
use std::{
    fs,
    path::{
        Path,
        PathBuf, //
    },
};

#[derive(clap::Args)]
pub struct HistogramOptions {
    /// Print a histogram of the times
    #[arg(long, conflicts_with = "json")]
    histogram: bool,

    /// Write the histogram to an SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Names of the columns that [`latency_columns`] fills.
pub const COLUMNS: [&str; 6] = ["min", "median", "p90", "p99", "p99.9", "max"];

/// Command that measures latencies, with a table of `N` columns.
pub trait LatencyCommand<const N: usize> {
    type Json: Serialize;

    /// Caption of the table.
    const CAPTION: &'static str;
    const HEADER: [&'static str; N];
    const SCALE: Scale;

    fn row(&self, measurement: &Measurement) -> [String; N];
    fn to_json(&self, measurement: &Measurement) -> Self::Json;
    fn title(&self, measurement: &Measurement) -> String;
}

/// Bucket of a histogram for JSON output: `count` latencies of at least `from_ns` nanoseconds.
#[derive(Serialize)]
pub struct Bucket {
    from_ns: u64,
    count: u64,
}

/// Builds the report of a command, for a terminal of `width` columns. Writes the histograms to the
/// SVG file if `options` name one and a test has run.
pub fn build_report<const N: usize, F: LatencyCommand<N>>(
    command: &F,
    results: Results,
    is_json: bool,
    options: &HistogramOptions,
    width: Option<u16>,
) -> Result<Report, Error> {
    let histogram =
        |measurement| Histogram::new(command.title(measurement), &measurement.buckets, F::SCALE);
    let histograms: Vec<_> = results.measurements.iter().map(histogram).collect();
    let text = if is_json {
        results.json(|measurement| command.to_json(measurement))?
    } else if histograms.is_empty() {
        String::new()
    } else {
        let table = results.table(F::HEADER, |measurement| command.row(measurement));
        let mut parts = vec![F::CAPTION.to_string(), table];
        if options.histogram {
            parts.extend(histograms.iter().map(|histogram| histogram.to_text(width)));
        }
        parts.join("\n\n")
    };
    let svg_result = match &options.svg {
        Some(path) if !histograms.is_empty() => write_svg(path, &histograms),
        _ => Ok(()),
    };
    let result = svg_result.and(results.into_result());
    Ok(Report { text, result })
}

fn write_svg(path: &Path, histograms: &[Histogram]) -> Result<(), Error> {
    fs::write(path, histogram::to_svg(histograms)).map_err(|error| Error::WriteFailed {
        path: path.to_path_buf(),
        error,
    })
}

/// Formats the latencies of a test as the cells of its row that [`COLUMNS`] names.
pub fn latency_columns(measurement: &Measurement, scale: Scale) -> [String; COLUMNS.len()] {
    let times = LatencyStats::new(&measurement.watch, &measurement.buckets);
    let show = |of: fn(LatencyStats) -> u64| {
        let time = times.map(of);
        or_dash(time.map(|time| latency::format_time(time, scale)))
    };
    [
        show(|times| times.min),
        show(|times| times.p50),
        show(|times| times.p90),
        show(|times| times.p99),
        show(|times| times.p999),
        show(|times| times.max),
    ]
}

/// Returns the buckets of a test that are not empty, for JSON output.
pub fn json_buckets(measurement: &Measurement) -> Vec<Bucket> {
    let buckets = measurement.buckets.iter().enumerate();
    let counts = buckets.filter(|(_, &count)| count > 0);
    let bucket = |(bucket, &count)| Bucket {
        from_ns: latency::bucket_min(bucket),
        count,
    };
    counts.map(bucket).collect()
}
