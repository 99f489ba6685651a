// SPDX-License-Identifier: GPL-2.0

//! Options and results of the commands that run tests against a server, one test after another.

use crate::{
    abi::{
        Test,
        TestKind,
        Watch,
        KOFI_TEST_VERIFY, //
    },
    error::Error,
    json,
    progress::TestProgress,
    runner::{
        self,
        Runner,
        ServerOptions,
        TestRun, //
    },
    size,
    table, //
};
use serde::Serialize;

/// Longest time in ms between two progress updates of a running test.
pub const WATCH_MSEC: u32 = 100;

#[derive(clap::Args)]
pub struct Options {
    /// Address of the server
    address: String,

    #[command(flatten)]
    server: ServerOptions,

    /// Number of messages or operations
    #[arg(
        short = 'n',
        long,
        conflicts_with = "time",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    count: Option<u64>,

    /// Duration of each test in seconds
    #[arg(short, long, value_name = "SECONDS", value_parser = size::parse_msec)]
    time: Option<u32>,

    /// Check the content of each message or access
    #[arg(long)]
    verify: bool,

    /// Run over raw verbs instead of the fabric interfaces
    #[arg(long)]
    verbs: bool,

    /// Print an array of JSON objects: bytes, nanoseconds and rates per second
    #[arg(long)]
    pub json: bool,
}

/// Limits of a test: number of messages, and duration in ms; 0 for no limit.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub count: u64,
    pub msec: u32,
}

/// Result of one test.
pub struct Measurement {
    pub test: Test,
    pub watch: Watch,
    pub buckets: Vec<u64>,
}

/// Results of a sequence of tests.
pub struct Results {
    pub measurements: Vec<Measurement>,
    /// Error that ended the sequence early, if any.
    pub result: Result<(), Error>,
}

impl Options {
    /// Builds a test with messages of `length` bytes. `default_bounds` apply if neither `--count`
    /// nor `--time` is given.
    pub fn build_test(
        &self,
        kind: TestKind,
        length: u64,
        default_bounds: Bounds,
    ) -> Result<Test, Error> {
        let bounds = match (self.count, self.time) {
            (None, None) => default_bounds,
            (count, msec) => Bounds {
                count: count.unwrap_or_default(),
                msec: msec.unwrap_or_default(),
            },
        };
        let test = Test {
            flags: if self.verify { KOFI_TEST_VERIFY } else { 0 },
            length,
            count: bounds.count,
            msec: bounds.msec,
            ..self.server.build_test(kind, &self.address)?
        };
        if self.verbs {
            return self.server.verbs_test(&test);
        }
        Ok(test)
    }

    /// Returns the address and port of the server, such as `10.0.0.1:7471`.
    pub fn server_address(&self) -> String {
        if self.verbs {
            return self.server.verbs_server().format_address(&self.address);
        }
        self.server.format_address(&self.address)
    }
}

/// Runs tests in turn until one fails or the user interrupts.
pub fn run(runner: Runner<'_>, name: &str, tests: &[Test]) -> Results {
    let mut measurements = Vec::new();
    let result = tests.iter().try_for_each(|test| {
        let progress = TestProgress::new(test, runner.show_progress);
        let TestRun {
            watch,
            buckets,
            result,
        } = runner.run(name, test, WATCH_MSEC, |watch| {
            progress.update(watch);
            Ok(())
        })?;
        // A test that ended before its first message has no result.
        if watch.messages > 0 {
            measurements.push(Measurement {
                test: *test,
                watch,
                buckets,
            });
        }
        result
    });
    Results {
        measurements,
        result,
    }
}

impl Results {
    /// Formats one row for each test, with a column for damaged messages if there are any. Returns
    /// an empty string if there are no results.
    pub fn table<const N: usize>(
        &self,
        header: [&str; N],
        row: impl Fn(&Measurement) -> [String; N],
    ) -> String {
        if self.measurements.is_empty() {
            return String::new();
        }
        let is_damaged = self.damaged() > 0;
        let mut header = header.to_vec();
        header.extend(is_damaged.then_some("damaged"));
        let rows = self.measurements.iter().map(|measurement| {
            let mut row = row(measurement).to_vec();
            row.extend(is_damaged.then(|| measurement.watch.damaged.to_string()));
            row
        });
        table::right_aligned(&header, rows)
    }

    /// Formats an array with one JSON object for each test.
    pub fn json<'a, T: Serialize>(
        &'a self,
        object: impl Fn(&'a Measurement) -> T,
    ) -> Result<String, Error> {
        let objects: Vec<_> = self.measurements.iter().map(object).collect();
        json::pretty(&objects)
    }

    fn damaged(&self) -> u64 {
        let damaged = |measurement: &Measurement| measurement.watch.damaged;
        self.measurements.iter().map(damaged).sum()
    }

    /// Returns the result of the command: damaged messages are an error.
    pub fn into_result(self) -> Result<(), Error> {
        runner::check_damage(self.damaged(), self.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::{
            get_string,
            KOFI_TEST_VERBS, //
        },
        fake::FakeKernel,
    };
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        options: Options,
    }

    const DEFAULT_BOUNDS: Bounds = Bounds { count: 7, msec: 0 };

    fn test(line: &[&str], length: u64) -> Test {
        let line = ["pingpong", "10.0.0.1"].iter().chain(line);
        let options = TestCli::try_parse_from(line).unwrap().options;
        let kind = TestKind::KOFI_TEST_PINGPONG;
        options.build_test(kind, length, DEFAULT_BOUNDS).unwrap()
    }

    fn run_two(kernel: &FakeKernel) -> Results {
        let tests = [test(&["-n", "100"], 1), test(&["-n", "200"], 2)];
        run(kernel.runner(), "pingpong", &tests)
    }

    fn messages(results: &Results) -> Vec<u64> {
        let messages = |measurement: &Measurement| measurement.watch.messages;
        results.measurements.iter().map(messages).collect()
    }

    #[test]
    fn a_test_is_limited_by_messages_or_by_time() {
        let bounds = |line: &[&str]| {
            let test = test(line, 1);
            (test.count, test.msec)
        };
        assert_eq!(bounds(&[]), (7, 0));
        assert_eq!(bounds(&["-n", "5"]), (5, 0));
        assert_eq!(bounds(&["-t", "0.5"]), (0, 500));
        for line in [&["-n", "5", "-t", "1"][..], &["-n", "0"], &["-t", "0"]] {
            let line = ["pingpong", "10.0.0.1"].iter().chain(line);
            assert!(TestCli::try_parse_from(line).is_err());
        }
    }

    #[test]
    fn verbs_tests_use_the_server_on_the_next_port() {
        let test = test(&["--verbs", "--verify", "-p", "80"], 1);
        assert_eq!(test.flags, KOFI_TEST_VERBS | KOFI_TEST_VERIFY);
        assert_eq!(get_string(&test.service), "81");
    }

    #[test]
    fn tests_run_in_the_given_order() {
        let kernel = FakeKernel::default();
        let results = run_two(&kernel);
        assert_eq!(messages(&results), [100, 200]);
        results.into_result().unwrap();
        let thread = kernel.thread.borrow();
        let sizes: Vec<_> = thread.started.iter().map(|test| test.length).collect();
        assert_eq!(sizes, [1, 2]);
    }

    #[test]
    fn ctrl_c_keeps_the_results_and_starts_no_other_test() {
        let kernel = FakeKernel::default();
        kernel.interrupt_at.set(Some(2));
        let results = run_two(&kernel);
        assert_eq!(messages(&results), [50]);
        assert!(matches!(results.into_result(), Err(Error::Interrupted)));
        assert_eq!(kernel.thread.borrow().started.len(), 1);
    }

    #[test]
    fn ctrl_c_in_the_second_test_keeps_the_results_of_the_first() {
        let kernel = FakeKernel::default();
        // The first test takes four requests to watch it: three while it runs, and one for its
        // results.
        kernel.interrupt_at.set(Some(6));
        let results = run_two(&kernel);
        assert_eq!(messages(&results), [100, 100]);
        assert!(matches!(results.result, Err(Error::Interrupted)));
    }

    #[test]
    fn a_test_that_does_not_connect_has_no_row() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().error = 111;
        kernel.thread.borrow_mut().fails_at_start = true;
        let results = run_two(&kernel);
        assert!(messages(&results).is_empty());
        assert_eq!(results.table(["size"], |_| unreachable!()), "");
        let error = results.into_result().unwrap_err().to_string();
        assert_eq!(error, "pingpong: Connection refused");
    }

    #[test]
    fn an_error_during_a_test_keeps_its_results() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().error = 111;
        let results = run_two(&kernel);
        assert_eq!(messages(&results), [50]);
        assert!(matches!(
            results.into_result(),
            Err(Error::TestFailed { .. })
        ));
    }

    #[test]
    fn damaged_messages_do_not_stop_the_next_test() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().damaged = 1;
        let results = run_two(&kernel);
        assert_eq!(messages(&results), [100, 200]);
        assert!(matches!(
            results.into_result(),
            Err(Error::Damaged { count: 2 })
        ));
    }
}
