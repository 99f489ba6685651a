// SPDX-License-Identifier: GPL-2.0

//! `kofi pingpong`: how long messages take.

use crate::{
    abi::TestKind,
    chart::{
        self,
        Chart, //
    },
    client::{
        self,
        Bounds,
        Measured, //
    },
    error::Error,
    latency::{
        self,
        RoundTrips, //
    },
    run::{
        Report,
        Runner, //
    },
    size,
    table::decimal, //
};
use serde::Serialize;
use std::{
    fs,
    path::{
        Path,
        PathBuf, //
    },
};

const USUAL: Bounds = Bounds {
    count: 1000,
    msec: 0,
};

const CAPTION: &str = "latency in µs, half of a round trip";

const HEADER: [&str; 9] = [
    "size",
    "messages",
    "min",
    "median",
    "p90",
    "p99",
    "p99.9",
    "max",
    "round trips/s",
];

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    client: client::Options,

    /// Bytes of a message, or several sizes in turn, such as 64,4K,1M
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64",
        value_parser = size::parse
    )]
    size: Vec<u64>,

    /// Draw how often each latency came
    #[arg(long, conflicts_with = "json")]
    histogram: bool,

    /// Write the histogram to a file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// A test in JSON.
#[derive(Serialize)]
struct Object {
    size: u64,
    messages: u64,
    bytes: u64,
    time_ns: u64,
    damaged: u64,
    round_trips_per_second: Option<f64>,
    round_trip_ns: Option<RoundTrips>,
    histogram: Vec<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    from_ns: u64,
    count: u64,
}

/// What the command prints on a terminal of that width.
pub fn run(runner: Runner<'_>, args: &Args, width: Option<u16>) -> Result<Report, Error> {
    let server = args.client.server();
    let kind = TestKind::KOFI_TEST_PINGPONG;
    let sizes = args.size.iter();
    let tests: Vec<_> = sizes
        .map(|&size| args.client.test(kind, size, USUAL))
        .collect::<Result<_, _>>()?;
    let runs = client::run(runner, &format!("pingpong with {server}"), &tests);
    let charts: Vec<_> = runs
        .measured
        .iter()
        .map(|measured| chart(measured, &server))
        .collect();
    let text = if args.client.json {
        runs.json(object)?
    } else if charts.is_empty() {
        String::new()
    } else {
        let mut parts = vec![CAPTION.to_string(), runs.table(HEADER, row)];
        if args.histogram {
            parts.extend(charts.iter().map(|chart| chart.lines(width)));
        }
        parts.join("\n\n")
    };
    let written = match &args.svg {
        Some(path) if !charts.is_empty() => write(path, &charts),
        _ => Ok(()),
    };
    let end = written.and(runs.into_end());
    Ok(Report { text, end })
}

fn chart(measured: &Measured, server: &str) -> Chart {
    let (messages, size) = (measured.watch.messages, measured.test.length);
    let title = format!("latency in µs of {messages} messages of {size} bytes with {server}");
    Chart::new(title, &measured.buckets)
}

fn write(path: &Path, charts: &[Chart]) -> Result<(), Error> {
    fs::write(path, chart::svg(charts)).map_err(|error| Error::NotWritten {
        path: path.to_path_buf(),
        error,
    })
}

fn row(measured: &Measured) -> [String; HEADER.len()] {
    let Measured {
        test,
        watch,
        buckets,
    } = measured;
    let trips = RoundTrips::of(watch, buckets);
    let latency = |of: fn(RoundTrips) -> u64| {
        let trip = trips.map(of);
        trip.map_or("-".to_string(), latency::show)
    };
    [
        size::show(test.length),
        watch.messages.to_string(),
        latency(|trips| trips.min),
        latency(|trips| trips.p50),
        latency(|trips| trips.p90),
        latency(|trips| trips.p99),
        latency(|trips| trips.p999),
        latency(|trips| trips.max),
        decimal(latency::per_second(watch.messages, watch.nsec), 0),
    ]
}

fn object(measured: &Measured) -> Object {
    let Measured {
        test,
        watch,
        buckets,
    } = measured;
    let counts = buckets.iter().enumerate().filter(|(_, &count)| count > 0);
    Object {
        size: test.length,
        messages: watch.messages,
        bytes: watch.bytes,
        time_ns: watch.nsec,
        damaged: watch.damaged,
        round_trips_per_second: latency::per_second(watch.messages, watch.nsec),
        round_trip_ns: RoundTrips::of(watch, buckets),
        histogram: counts
            .map(|(bucket, &count)| Bucket {
                from_ns: latency::first(bucket),
                count,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::KOFI_TEST_VERIFY,
        fake::Fake, //
    };
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn pingpong(kernel: &Fake, line: &[&str]) -> Report {
        let line = ["pingpong", "10.0.0.1"].iter().chain(line);
        let args = Line::try_parse_from(line).unwrap().args;
        run(kernel.runner(), &args, Some(72)).unwrap()
    }

    fn shown(line: &[&str]) -> String {
        let report = pingpong(&Fake::default(), line);
        report.end.unwrap();
        report.text + "\n"
    }

    #[test]
    fn each_size_is_a_row() {
        let table = shown(&["-s", "64,4K,1M"]);
        assert_eq!(table, include_str!("golden/pingpong.txt"));
    }

    #[test]
    fn histograms_stand_below_the_table() {
        let shown = shown(&["--histogram", "-s", "1,64"]);
        assert_eq!(shown, include_str!("golden/histogram.txt"));
    }

    #[test]
    fn json_is_an_array_of_objects_with_whole_round_trips() {
        let json = shown(&["--json", "-n", "5", "-s", "64,4K"]);
        assert_eq!(json, include_str!("golden/pingpong.json"));
    }

    #[test]
    fn damaged_messages_have_a_column_and_are_an_error() {
        let kernel = Fake::default();
        kernel.thread.borrow_mut().damaged = 3;
        let report = pingpong(&kernel, &["--verify", "-s", "64,4K"]);
        assert!(report.text.lines().nth(2).unwrap().ends_with("damaged"));
        assert!(report.text.ends_with(" 3"), "{}", report.text);
        assert!(matches!(report.end, Err(Error::Damaged { count: 6 })));
        let thread = kernel.thread.borrow();
        assert!(thread
            .started
            .iter()
            .all(|test| test.flags == KOFI_TEST_VERIFY));
    }

    #[test]
    fn the_picture_is_in_its_file() {
        let path = std::env::temp_dir().join(format!("kofi-{}.svg", std::process::id()));
        shown(&["--svg", path.to_str().unwrap()]);
        let picture = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(picture.starts_with("<svg "), "{picture}");
        assert!(picture.contains("of 1000 messages of 64 bytes with 10.0.0.1:7471"));
    }

    #[test]
    fn a_file_that_cannot_be_written_costs_no_results() {
        let report = pingpong(&Fake::default(), &["--svg", "/nonexistent/kofi.svg"]);
        assert!(report.text.contains("1000"));
        let error = report.end.unwrap_err();
        assert!(
            matches!(error, Error::NotWritten { path, .. } if path == Path::new("/nonexistent/kofi.svg"))
        );
    }

    #[test]
    fn a_histogram_is_part_of_json_anyway() {
        let line = ["pingpong", "10.0.0.1", "--json", "--histogram"];
        assert!(Line::try_parse_from(line).is_err());
    }
}
