// SPDX-License-Identifier: GPL-2.0

//! What the commands have in common that tell how long something took.

use crate::{
    client::{
        Measured,
        Runs, //
    },
    error::Error,
    histogram::{
        self,
        Chart, //
    },
    latency::{
        self,
        Share,
        Times, //
    },
    runner::Report,
    table::optional,
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
pub struct Pictures {
    /// Draw how often each time came
    #[arg(long, conflicts_with = "json")]
    histogram: bool,

    /// Write the histogram to a file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The columns of [`columns`].
pub const COLUMNS: [&str; 6] = ["min", "median", "p90", "p99", "p99.9", "max"];

/// How a command shows what it has measured.
pub trait Face<const N: usize> {
    type Object: Serialize;

    /// What stands above the table.
    const CAPTION: &'static str;
    const HEADER: [&'static str; N];
    const SHARE: Share;

    fn row(&self, measured: &Measured) -> [String; N];
    fn object(&self, measured: &Measured) -> Self::Object;
    fn title(&self, measured: &Measured) -> String;
}

/// What has some time, in JSON.
#[derive(Serialize)]
pub struct Bucket {
    from_ns: u64,
    count: u64,
}

/// What the command prints on a terminal of that width.
pub fn report<const N: usize, F: Face<N>>(
    face: &F,
    runs: Runs,
    is_json: bool,
    pictures: &Pictures,
    width: Option<u16>,
) -> Result<Report, Error> {
    let chart = |measured| Chart::new(face.title(measured), &measured.buckets, F::SHARE);
    let charts: Vec<_> = runs.measured.iter().map(chart).collect();
    let text = if is_json {
        runs.json(|measured| face.object(measured))?
    } else if charts.is_empty() {
        String::new()
    } else {
        let table = runs.table(F::HEADER, |measured| face.row(measured));
        let mut parts = vec![F::CAPTION.to_string(), table];
        if pictures.histogram {
            parts.extend(charts.iter().map(|chart| chart.lines(width)));
        }
        parts.join("\n\n")
    };
    let written = match &pictures.svg {
        Some(path) if !charts.is_empty() => write(path, &charts),
        _ => Ok(()),
    };
    let end = written.and(runs.into_end());
    Ok(Report { text, end })
}

fn write(path: &Path, charts: &[Chart]) -> Result<(), Error> {
    fs::write(path, histogram::svg(charts)).map_err(|error| Error::NotWritten {
        path: path.to_path_buf(),
        error,
    })
}

/// The times of a test as they stand in its row.
pub fn columns(measured: &Measured, share: Share) -> [String; COLUMNS.len()] {
    let times = Times::of(&measured.watch, &measured.buckets);
    let show = |of: fn(Times) -> u64| {
        let time = times.map(of);
        optional(time.map(|time| latency::show(time, share)))
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

/// What is in each bucket that is not empty.
pub fn histogram(measured: &Measured) -> Vec<Bucket> {
    let buckets = measured.buckets.iter().enumerate();
    let counts = buckets.filter(|(_, &count)| count > 0);
    let bucket = |(bucket, &count)| Bucket {
        from_ns: latency::first(bucket),
        count,
    };
    counts.map(bucket).collect()
}
