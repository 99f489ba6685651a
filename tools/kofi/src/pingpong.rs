// SPDX-License-Identifier: GPL-2.0

//! `kofi pingpong`: measures the latency of messages.

use crate::{
    abi::TestKind,
    client::{
        self,
        Bounds,
        Measurement, //
    },
    error::Error,
    latency::{
        per_second,
        LatencyStats,
        Scale, //
    },
    latency_report::{
        self,
        Bucket,
        HistogramOptions,
        LatencyCommand, //
    },
    runner::{
        Report,
        Runner, //
    },
    size,
    table::format_decimal,
};
use serde::Serialize;

const DEFAULT_BOUNDS: Bounds = Bounds {
    count: 1000,
    msec: 0,
};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    client: client::Options,

    /// Bytes of a message, or a list of sizes to run in turn, such as 64,4K,1M
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
    histogram: HistogramOptions,
}

/// Result of one test in JSON.
#[derive(Serialize)]
pub struct PingpongResult {
    size: u64,
    messages: u64,
    bytes: u64,
    time_ns: u64,
    damaged: u64,
    round_trips_per_second: Option<f64>,
    round_trip_ns: Option<LatencyStats>,
    histogram: Vec<Bucket>,
}

/// The command, with the address of its server.
struct PingpongCommand(String);

/// Runs the tests and returns the report, for a terminal of `width` columns.
pub fn run(runner: Runner<'_>, args: &Args, width: Option<u16>) -> Result<Report, Error> {
    let command = PingpongCommand(args.client.server_address());
    let kind = TestKind::KOFI_TEST_PINGPONG;
    let sizes = args.size.iter();
    let tests: Vec<_> = sizes
        .map(|&size| args.client.build_test(kind, size, DEFAULT_BOUNDS))
        .collect::<Result<_, _>>()?;
    let results = client::run(runner, &format!("pingpong with {}", command.0), &tests);
    latency_report::build_report(&command, results, args.client.json, &args.histogram, width)
}

impl LatencyCommand<9> for PingpongCommand {
    type Json = PingpongResult;

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
    const SCALE: Scale = Scale::HalfRoundTrip;

    fn row(&self, measurement: &Measurement) -> [String; 9] {
        let Measurement { test, watch, .. } = measurement;
        let [min, median, p90, p99, p999, max] =
            latency_report::latency_columns(measurement, Self::SCALE);
        [
            size::format(test.length),
            watch.messages.to_string(),
            min,
            median,
            p90,
            p99,
            p999,
            max,
            format_decimal(per_second(watch.messages, watch.nsec), 0),
        ]
    }

    fn to_json(&self, measurement: &Measurement) -> PingpongResult {
        let Measurement {
            test,
            watch,
            buckets,
        } = measurement;
        PingpongResult {
            size: test.length,
            messages: watch.messages,
            bytes: watch.bytes,
            time_ns: watch.nsec,
            damaged: watch.damaged,
            round_trips_per_second: per_second(watch.messages, watch.nsec),
            round_trip_ns: LatencyStats::new(watch, buckets),
            histogram: latency_report::json_buckets(measurement),
        }
    }

    fn title(&self, Measurement { test, watch, .. }: &Measurement) -> String {
        let (messages, size, server) = (watch.messages, test.length, &self.0);
        format!("latency in µs of {messages} messages of {size} bytes with {server}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::KOFI_TEST_VERIFY,
        fake::FakeKernel, //
    };
    use clap::Parser;
    use std::{
        fs,
        path::Path, //
    };

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn pingpong(kernel: &FakeKernel, line: &[&str]) -> Report {
        let line = ["pingpong", "10.0.0.1"].iter().chain(line);
        let args = TestCli::try_parse_from(line).unwrap().args;
        run(kernel.runner(), &args, Some(72)).unwrap()
    }

    fn shown(line: &[&str]) -> String {
        let report = pingpong(&FakeKernel::default(), line);
        report.result.unwrap();
        report.text + "\n"
    }

    #[test]
    fn each_size_is_a_row() {
        let table = shown(&["-s", "64,4K,1M"]);
        assert_eq!(table, include_str!("golden/pingpong.txt"));
    }

    #[test]
    fn histograms_follow_the_table() {
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
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().damaged = 3;
        let report = pingpong(&kernel, &["--verify", "-s", "64,4K"]);
        assert!(report.text.lines().nth(2).unwrap().ends_with("damaged"));
        assert!(report.text.ends_with(" 3"), "{}", report.text);
        assert!(matches!(report.result, Err(Error::Damaged { count: 6 })));
        let thread = kernel.thread.borrow();
        assert!(thread
            .started
            .iter()
            .all(|test| test.flags == KOFI_TEST_VERIFY));
    }

    #[test]
    fn the_svg_file_is_written() {
        let path = std::env::temp_dir().join(format!("kofi-{}.svg", std::process::id()));
        shown(&["--svg", path.to_str().unwrap()]);
        let picture = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(picture.starts_with("<svg "), "{picture}");
        assert!(picture.contains("of 1000 messages of 64 bytes with 10.0.0.1:7471"));
    }

    #[test]
    fn a_write_error_keeps_the_results() {
        let report = pingpong(&FakeKernel::default(), &["--svg", "/nonexistent/kofi.svg"]);
        assert!(report.text.contains("1000"));
        let error = report.result.unwrap_err();
        assert!(
            matches!(error, Error::WriteFailed { path, .. } if path == Path::new("/nonexistent/kofi.svg"))
        );
    }

    #[test]
    fn histogram_and_json_exclude_each_other() {
        let line = ["pingpong", "10.0.0.1", "--json", "--histogram"];
        assert!(TestCli::try_parse_from(line).is_err());
    }
}
