// SPDX-License-Identifier: GPL-2.0

//! `kofi bw`: measures bandwidth.

use crate::{
    abi::{
        Test,
        TestKind, //
    },
    client::{
        self,
        Bounds,
        Measurement, //
    },
    error::Error,
    latency::per_second,
    runner::{
        Report,
        Runner, //
    },
    size,
    table::format_decimal,
    window::Window, //
};
use serde::Serialize;

const DEFAULT_BOUNDS: Bounds = Bounds {
    count: 0,
    msec: 3000,
};

const HEADER: [&str; 6] = ["size", "window", "messages", "MB/s", "Gbit/s", "messages/s"];

/// Operation that transfers the bytes.
#[derive(clap::ValueEnum, Serialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Operation {
    /// Send messages to the server
    Send,
    /// RMA writes to the server's memory
    Write,
    /// RMA reads from the server's memory
    Read,
}

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
        default_value = "64K",
        value_parser = size::parse
    )]
    size: Vec<u64>,

    /// Operation to measure
    #[arg(short, long, value_enum, default_value_t = Operation::Send)]
    operation: Operation,

    #[command(flatten)]
    window: Window,
}

/// Result of one test in JSON.
#[derive(Serialize)]
struct BwResult {
    operation: Operation,
    size: u64,
    window: u32,
    messages: u64,
    bytes: u64,
    time_ns: u64,
    damaged: u64,
    bytes_per_second: Option<f64>,
    messages_per_second: Option<f64>,
}

impl Args {
    fn test(&self, size: u64) -> Result<Test, Error> {
        let kind = match self.operation {
            Operation::Send => TestKind::KOFI_TEST_STREAM,
            Operation::Write => TestKind::KOFI_TEST_WRITE,
            Operation::Read => TestKind::KOFI_TEST_READ,
        };
        Ok(Test {
            window: self.window.for_size(size)?,
            ..self.client.build_test(kind, size, DEFAULT_BOUNDS)?
        })
    }
}

/// Runs the tests and returns the report.
pub fn run(runner: Runner<'_>, args: &Args) -> Result<Report, Error> {
    let sizes = args.size.iter();
    let tests: Vec<_> = sizes
        .map(|&size| args.test(size))
        .collect::<Result<_, _>>()?;
    let name = format!("bw with {}", args.client.server_address());
    let results = client::run(runner, &name, &tests);
    let text = if args.client.json {
        results.json(|measurement| to_json(args.operation, measurement))?
    } else {
        results.table(HEADER, row)
    };
    let result = results.into_result();
    Ok(Report { text, result })
}

fn row(measurement: &Measurement) -> [String; HEADER.len()] {
    let Measurement { test, watch, .. } = measurement;
    let bytes = per_second(watch.bytes, watch.nsec);
    [
        size::format(test.length),
        test.window.to_string(),
        watch.messages.to_string(),
        format_decimal(bytes.map(|bytes| bytes / 1e6), 2),
        format_decimal(bytes.map(|bytes| bytes * 8.0 / 1e9), 2),
        format_decimal(per_second(watch.messages, watch.nsec), 0),
    ]
}

fn to_json(operation: Operation, measurement: &Measurement) -> BwResult {
    let Measurement { test, watch, .. } = measurement;
    BwResult {
        operation,
        size: test.length,
        window: test.window,
        messages: watch.messages,
        bytes: watch.bytes,
        time_ns: watch.nsec,
        damaged: watch.damaged,
        bytes_per_second: per_second(watch.bytes, watch.nsec),
        messages_per_second: per_second(watch.messages, watch.nsec),
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

    fn args(line: &[&str]) -> Result<Args, clap::Error> {
        let line = ["bw", "10.0.0.1"].iter().chain(line);
        Ok(TestCli::try_parse_from(line)?.args)
    }

    fn shown(line: &[&str]) -> String {
        let report = run(FakeKernel::default().runner(), &args(line).unwrap()).unwrap();
        report.result.unwrap();
        report.text + "\n"
    }

    #[test]
    fn each_size_is_a_row() {
        let table = shown(&["-s", "64,64K,1M", "-w", "32"]);
        assert_eq!(table, include_str!("golden/bw.txt"));
    }

    #[test]
    fn json_is_an_array_of_objects() {
        let json = shown(&["--json", "-s", "64,64K"]);
        assert_eq!(json, include_str!("golden/bw.json"));
    }

    #[test]
    fn each_operation_starts_its_kind_of_test() {
        for (operation, kind) in [
            ("send", TestKind::KOFI_TEST_STREAM),
            ("write", TestKind::KOFI_TEST_WRITE),
            ("read", TestKind::KOFI_TEST_READ),
        ] {
            let kernel = FakeKernel::default();
            let report = run(
                kernel.runner(),
                &args(&["--json", "-o", operation]).unwrap(),
            )
            .unwrap();
            report.result.unwrap();
            assert!(report
                .text
                .contains(&format!(r#""operation": "{operation}""#)));
            assert_eq!(TestKind(kernel.thread.borrow().started[0].kind), kind);
        }
    }

    #[test]
    fn the_default_test_takes_three_seconds_with_a_window_of_16() {
        let kernel = FakeKernel::default();
        run(kernel.runner(), &args(&[]).unwrap()).unwrap();
        let test = kernel.thread.borrow().started[0];
        assert_eq!((test.length, test.window), (65536, 16));
        assert_eq!((test.count, test.msec), (0, 3000));
    }

    #[test]
    fn a_window_that_is_too_large_is_rejected_before_any_test_starts() {
        let kernel = FakeKernel::default();
        let args = args(&["-w", "65", "-s", "64,1M"]).unwrap();
        let error = run(kernel.runner(), &args).err().unwrap();
        assert!(
            matches!(error, Error::WindowTooLarge { window: 65, .. }),
            "{error}"
        );
        assert!(kernel.thread.borrow().started.is_empty());
    }

    #[test]
    fn the_largest_window_is_accepted() {
        shown(&["-w", "64", "-s", "1M"]);
        shown(&["-w", "1024", "-s", "64K"]);
    }
}
