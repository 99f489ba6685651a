// SPDX-License-Identifier: GPL-2.0

//! `kofi pingpong`: how long messages take.

use crate::{
    abi::TestKind,
    client::{
        self,
        Bounds,
        Measured, //
    },
    error::Error,
    latency::{
        per_second,
        Share,
        Times, //
    },
    latency_report::{
        self,
        Bucket,
        Face,
        Pictures, //
    },
    runner::{
        Report,
        Runner, //
    },
    size,
    table::decimal,
};
use serde::Serialize;

const USUAL: Bounds = Bounds {
    count: 1000,
    msec: 0,
};

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

    #[command(flatten)]
    pictures: Pictures,
}

/// A test in JSON.
#[derive(Serialize)]
pub struct Object {
    size: u64,
    messages: u64,
    bytes: u64,
    time_ns: u64,
    damaged: u64,
    round_trips_per_second: Option<f64>,
    round_trip_ns: Option<Times>,
    histogram: Vec<Bucket>,
}

/// Round trips with a server.
struct Trips(String);

/// What the command prints on a terminal of that width.
pub fn run(runner: Runner<'_>, args: &Args, width: Option<u16>) -> Result<Report, Error> {
    let face = Trips(args.client.server());
    let kind = TestKind::KOFI_TEST_PINGPONG;
    let sizes = args.size.iter();
    let tests: Vec<_> = sizes
        .map(|&size| args.client.test(kind, size, USUAL))
        .collect::<Result<_, _>>()?;
    let runs = client::run(runner, &format!("pingpong with {}", face.0), &tests);
    latency_report::report(&face, runs, args.client.json, &args.pictures, width)
}

impl Face<9> for Trips {
    type Object = Object;

    const CAPTION: &'static str = "latency in µs, half of a round trip";
    const HEADER: [&'static str; 9] = [
        "size",
        "messages",
        latency_report::COLUMNS[0],
        latency_report::COLUMNS[1],
        latency_report::COLUMNS[2],
        latency_report::COLUMNS[3],
        latency_report::COLUMNS[4],
        latency_report::COLUMNS[5],
        "round trips/s",
    ];
    const SHARE: Share = Share::Half;

    fn row(&self, measured: &Measured) -> [String; 9] {
        let Measured { test, watch, .. } = measured;
        let [min, median, p90, p99, p999, max] = latency_report::columns(measured, Self::SHARE);
        [
            size::show(test.length),
            watch.messages.to_string(),
            min,
            median,
            p90,
            p99,
            p999,
            max,
            decimal(per_second(watch.messages, watch.nsec), 0),
        ]
    }

    fn object(&self, measured: &Measured) -> Object {
        let Measured {
            test,
            watch,
            buckets,
        } = measured;
        Object {
            size: test.length,
            messages: watch.messages,
            bytes: watch.bytes,
            time_ns: watch.nsec,
            damaged: watch.damaged,
            round_trips_per_second: per_second(watch.messages, watch.nsec),
            round_trip_ns: Times::of(watch, buckets),
            histogram: latency_report::histogram(measured),
        }
    }

    fn title(&self, Measured { test, watch, .. }: &Measured) -> String {
        let (messages, size, server) = (watch.messages, test.length, &self.0);
        format!("latency in µs of {messages} messages of {size} bytes with {server}")
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
    use std::{
        fs,
        path::Path, //
    };

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
