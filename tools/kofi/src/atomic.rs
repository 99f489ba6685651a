// SPDX-License-Identifier: GPL-2.0

//! `kofi atomic`: measures the time that atomic operations on the server's memory take.

use crate::{
    abi::{
        Test,
        TestKind,
        TextType, //
    },
    client::{
        self,
        Bounds,
        Measurement, //
    },
    error::Error,
    kernel::Kernel,
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
    names::Names,
    runner::{
        Report,
        Runner, //
    },
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

    /// Operation, or a list of operations to run in turn, such as sum,cswap
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "sum"
    )]
    operation: Vec<String>,

    /// Datatype of the elements, or a list to run in turn, such as uint64,int8
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "uint64"
    )]
    r#type: Vec<String>,

    /// Number of elements in each operation
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=65536))]
    elements: u64,

    #[command(flatten)]
    histogram: HistogramOptions,
}

/// Result of one test in JSON.
#[derive(Serialize)]
pub struct AtomicResult {
    operation: String,
    r#type: String,
    elements: u64,
    operations: u64,
    time_ns: u64,
    damaged: u64,
    operations_per_second: Option<f64>,
    operation_ns: Option<LatencyStats>,
    histogram: Vec<Bucket>,
}

/// Parameters of the tests, with the kernel's names of operations and datatypes.
struct AtomicCommand {
    server: String,
    elements: u64,
    ops: Names,
    types: Names,
}

/// Returns the size of an element in bytes, from the number of bits in the name of its datatype.
fn element_size(name: &str) -> Option<u64> {
    let bits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    bits.parse::<u64>().ok().map(|bits| bits / 8)
}

impl Args {
    fn build_tests(&self, command: &AtomicCommand) -> Result<Vec<Test>, Error> {
        let mut tests = Vec::new();
        for name in &self.r#type {
            let datatype = command.types.find_value("--type", name.trim())?;
            // A datatype without a size in its name, such as float, has no atomic operations in the
            // kernel.
            let size = element_size(&command.types.name(datatype.into())).unwrap_or(1);
            for name in &self.operation {
                let op = command.ops.find_value("--operation", name.trim())?;
                let kind = TestKind::KOFI_TEST_ATOMIC;
                let test = self
                    .client
                    .build_test(kind, size * self.elements, DEFAULT_BOUNDS)?;
                tests.push(Test {
                    op,
                    datatype,
                    ..test
                });
            }
        }
        Ok(tests)
    }
}

/// Runs the tests and returns the report, for a terminal of `width` columns.
pub fn run(runner: Runner<'_>, args: &Args, width: Option<u16>) -> Result<Report, Error> {
    let command = AtomicCommand::new(runner.kernel, args)?;
    let tests = args.build_tests(&command)?;
    let results = client::run(runner, &format!("atomic with {}", command.server), &tests);
    latency_report::build_report(&command, results, args.client.json, &args.histogram, width)
}

impl AtomicCommand {
    fn new(kernel: &dyn Kernel, args: &Args) -> Result<Self, Error> {
        Ok(Self {
            server: args.client.server_address(),
            elements: args.elements,
            ops: Names::read_values(kernel, TextType::KOFI_TEXT_ATOMIC_OP)?,
            types: Names::read_values(kernel, TextType::KOFI_TEXT_DATATYPE)?,
        })
    }

    fn operation(&self, test: &Test) -> String {
        self.ops.name(test.op.into())
    }

    fn datatype(&self, test: &Test) -> String {
        self.types.name(test.datatype.into())
    }
}

impl LatencyCommand<11> for AtomicCommand {
    type Json = AtomicResult;

    const CAPTION: &'static str = "time of an operation in µs";
    const HEADER: [&'static str; 11] = [
        "operation",
        "type",
        "elements",
        "operations",
        latency_report::COLUMNS[0],
        latency_report::COLUMNS[1],
        latency_report::COLUMNS[2],
        latency_report::COLUMNS[3],
        latency_report::COLUMNS[4],
        latency_report::COLUMNS[5],
        "operations/s",
    ];
    const SCALE: Scale = Scale::Whole;

    fn row(&self, measurement: &Measurement) -> [String; 11] {
        let Measurement { test, watch, .. } = measurement;
        let [min, median, p90, p99, p999, max] =
            latency_report::latency_columns(measurement, Self::SCALE);
        [
            self.operation(test),
            self.datatype(test),
            self.elements.to_string(),
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

    fn to_json(&self, measurement: &Measurement) -> AtomicResult {
        let Measurement {
            test,
            watch,
            buckets,
        } = measurement;
        AtomicResult {
            operation: self.operation(test),
            r#type: self.datatype(test),
            elements: self.elements,
            operations: watch.messages,
            time_ns: watch.nsec,
            damaged: watch.damaged,
            operations_per_second: per_second(watch.messages, watch.nsec),
            operation_ns: LatencyStats::new(watch, buckets),
            histogram: latency_report::json_buckets(measurement),
        }
    }

    fn title(&self, Measurement { test, watch, .. }: &Measurement) -> String {
        let (count, elements, server) = (watch.messages, self.elements, &self.server);
        let (operation, datatype) = (self.operation(test), self.datatype(test));
        format!("time in µs of {count} {operation} of {elements} {datatype} with {server}")
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

    fn atomic(kernel: &FakeKernel, line: &[&str]) -> Result<Report, Error> {
        let line = ["atomic", "10.0.0.1"].iter().chain(line);
        let args = TestCli::try_parse_from(line).unwrap().args;
        run(kernel.runner(), &args, Some(72))
    }

    fn shown(line: &[&str]) -> String {
        let report = atomic(&FakeKernel::default(), line).unwrap();
        report.result.unwrap();
        report.text + "\n"
    }

    #[test]
    fn each_operation_on_each_type_is_a_row() {
        let table = shown(&[
            "-o",
            "sum,CSWAP,fi_bxor",
            "--type",
            "uint64,int8",
            "-e",
            "3",
        ]);
        assert_eq!(table, include_str!("golden/atomic.txt"));
    }

    #[test]
    fn json_is_an_array_of_objects() {
        let json = shown(&["--json", "-n", "5"]);
        assert_eq!(json, include_str!("golden/atomic.json"));
    }

    #[test]
    fn the_length_is_a_multiple_of_the_datatype_size() {
        let kernel = FakeKernel::default();
        atomic(&kernel, &["--type", "uint16", "-e", "5"]).unwrap();
        let test = kernel.thread.borrow().started[0];
        assert_eq!((test.length, test.op, test.datatype), (10, 2, 3));
    }

    #[test]
    fn unknown_names_are_reported_with_the_known_ones() {
        let error = atomic(&FakeKernel::default(), &["-o", "divide"])
            .err()
            .unwrap();
        let message = error.to_string();
        assert!(
            message.contains("--operation") && message.contains("cswap"),
            "{message}"
        );
        let error = atomic(&FakeKernel::default(), &["--type", "uint63"])
            .err()
            .unwrap();
        assert!(error.to_string().contains("int8"), "{error}");
    }

    #[test]
    fn the_histogram_shows_whole_operation_times() {
        let shown = shown(&["--histogram", "-n", "100"]);
        assert!(
            shown.contains("time in µs of 100 sum of 1 uint64 with 10.0.0.1:7471"),
            "{shown}"
        );
        assert!(shown.contains("19."), "{shown}");
    }
}
