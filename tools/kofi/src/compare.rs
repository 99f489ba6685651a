// SPDX-License-Identifier: GPL-2.0

//! `kofi compare`: runs the same tests over the fabric interfaces and over raw verbs.
//!
//! The sides alternate, and the side that runs first changes with each round, so that drift of the
//! machine affects both alike.

use crate::{
    abi::{
        Test,
        TestKind,
        TextType,
        KOFI_TEST_VERBS, //
    },
    client::{
        self,
        Measurement, //
    },
    error::Error,
    json,
    kernel::Kernel,
    latency::{
        self,
        format_time_f64,
        per_second,
        Scale, //
    },
    names::{
        parse_value,
        Names, //
    },
    runner::{
        Report,
        Runner,
        ServerOptions, //
    },
    size,
    table,
    window::Window, //
};
use serde::Serialize;

const HEADER: [&str; 7] = [
    "operation",
    "size",
    "unit",
    "kofi",
    "verbs",
    "kofi/verbs",
    "rounds",
];

/// Bytes of the single element that atomic operations change on both sides.
const ATOMIC_SIZE: u64 = 8;

/// Operation to compare.
#[derive(clap::ValueEnum, Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Operation {
    /// Latency of a message: half of a round trip
    Pingpong,
    /// Bandwidth of messages to the server
    Send,
    /// Bandwidth of RMA writes to the server's memory
    Write,
    /// Bandwidth of RMA reads from the server's memory
    Read,
    /// Time of an atomic addition in the server's memory
    Atomic,
}

const ALL_OPERATIONS: [Operation; 5] = [
    Operation::Pingpong,
    Operation::Send,
    Operation::Write,
    Operation::Read,
    Operation::Atomic,
];

#[derive(clap::Args)]
pub struct Args {
    /// Address of the server
    address: String,

    #[command(flatten)]
    server: ServerOptions,

    /// Operation to compare, or a list to run in turn; default: all that the device supports
    #[arg(short, long, value_enum, value_name = "LIST", value_delimiter = ',')]
    operation: Vec<Operation>,

    /// Bytes of a message, or a list of sizes to run in turn, such as 64,4K,1M
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "64,4K,64K",
        value_parser = size::parse
    )]
    size: Vec<u64>,

    #[command(flatten)]
    window: Window,

    /// Duration in seconds of each test in each round
    #[arg(short, long, value_name = "SECONDS", default_value = "0.25", value_parser = size::parse_msec)]
    time: u32,

    /// Number of rounds
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Print an array of JSON objects: bytes per second, and nanoseconds of a whole round trip
    #[arg(long)]
    json: bool,
}

/// Results of one operation and size, in the order of the rounds.
struct Row {
    operation: Operation,
    size: u64,
    kofi: Vec<f64>,
    verbs: Vec<f64>,
}

/// Row in JSON, with the medians of both sides and their ratios.
#[derive(Serialize)]
struct CompareResult {
    operation: Operation,
    size: u64,
    unit: &'static str,
    kofi: f64,
    verbs: f64,
    ratio: f64,
    ratio_least: f64,
    ratio_most: f64,
    rounds: usize,
}

impl Operation {
    fn kind(self) -> TestKind {
        match self {
            Self::Pingpong => TestKind::KOFI_TEST_PINGPONG,
            Self::Send => TestKind::KOFI_TEST_STREAM,
            Self::Write => TestKind::KOFI_TEST_WRITE,
            Self::Read => TestKind::KOFI_TEST_READ,
            Self::Atomic => TestKind::KOFI_TEST_ATOMIC,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
            Self::Atomic => "atomic",
        }
    }

    fn is_timed(self) -> bool {
        matches!(self, Self::Pingpong | Self::Atomic)
    }

    /// Returns the unit of the figure in a table, and in JSON.
    fn units(self) -> (&'static str, &'static str) {
        if self.is_timed() {
            ("µs", "ns")
        } else {
            ("MB/s", "bytes/s")
        }
    }

    /// Formats a figure in the unit of the table.
    fn format_figure(self, figure: f64) -> String {
        match self {
            Self::Pingpong => format_time_f64(figure, Scale::HalfRoundTrip),
            Self::Atomic => format_time_f64(figure, Scale::Whole),
            _ => table::format_decimal(Some(figure / 1e6), 2),
        }
    }

    /// Returns the median time in ns, or the bandwidth in bytes per second.
    fn figure(self, measurement: &Measurement) -> Option<f64> {
        let Measurement { watch, buckets, .. } = measurement;
        if self.is_timed() {
            latency::median(buckets)
        } else {
            per_second(watch.bytes, watch.nsec)
        }
    }
}

impl Args {
    /// Returns the operations to compare: those of `--operation`, or all that the devices which
    /// reach the server support.
    fn select_operations(&self, kernel: &dyn Kernel) -> Result<Vec<Operation>, Error> {
        if !self.operation.is_empty() {
            return Ok(self.operation.clone());
        }
        let mut query = self.server.path_query(&self.address)?;
        let caps = Names::read_flags(kernel, TextType::KOFI_TEXT_CAPS)?;
        query.caps = caps.find("--operation", "atomic")?;
        // The offer of a datagram endpoint may have atomics where that of a connected endpoint has
        // none.
        let ep_type = TextType::KOFI_TEXT_EP_TYPE;
        query.ep_type = parse_value(kernel, ep_type, "--operation", "msg")?;
        match kernel.offers(&query) {
            Ok(_) => Ok(ALL_OPERATIONS.to_vec()),
            Err(Error::NoMatch) => Ok(ALL_OPERATIONS[..ALL_OPERATIONS.len() - 1].to_vec()),
            Err(error) => Err(error),
        }
    }

    fn build_test(&self, operation: Operation, size: u64, ids: &AtomicIds) -> Result<Test, Error> {
        let window = match operation {
            Operation::Pingpong | Operation::Atomic => 0,
            _ => self.window.for_size(size)?,
        };
        let is_atomic = operation == Operation::Atomic;
        Ok(Test {
            length: size,
            window,
            msec: self.time,
            op: if is_atomic { ids.sum } else { 0 },
            datatype: if is_atomic { ids.uint64 } else { 0 },
            ..self.server.build_test(operation.kind(), &self.address)?
        })
    }

    /// Builds the tests of all rounds, in the order in which they run.
    fn build_tests(&self, kernel: &dyn Kernel) -> Result<Vec<Test>, Error> {
        let ids = AtomicIds::read(kernel)?;
        let mut tests = Vec::new();
        for operation in self.select_operations(kernel)? {
            let sizes = match operation {
                Operation::Atomic => &[ATOMIC_SIZE][..],
                _ => &self.size,
            };
            for &size in sizes {
                let fabric_test = self.build_test(operation, size, &ids)?;
                let verbs_test = self.server.verbs_test(&fabric_test)?;
                for round in 0..self.rounds {
                    tests.extend(match round % 2 {
                        0 => [fabric_test, verbs_test],
                        _ => [verbs_test, fabric_test],
                    });
                }
            }
        }
        Ok(tests)
    }
}

/// The kernel's numbers of the atomic operation and datatype that both sides support.
struct AtomicIds {
    sum: u32,
    uint64: u32,
}

impl AtomicIds {
    fn read(kernel: &dyn Kernel) -> Result<Self, Error> {
        let number = |kind, name| parse_value(kernel, kind, "--operation", name);
        Ok(Self {
            sum: number(TextType::KOFI_TEXT_ATOMIC_OP, "sum")?,
            uint64: number(TextType::KOFI_TEXT_DATATYPE, "uint64")?,
        })
    }
}

/// Runs the tests and returns the report.
pub fn run(runner: Runner<'_>, args: &Args) -> Result<Report, Error> {
    let name = format!(
        "compare with {} and {}",
        args.server.format_address(&args.address),
        args.server.verbs_server().format_address(&args.address)
    );
    let results = client::run(runner, &name, &args.build_tests(runner.kernel)?);
    let rows = rows(&results.measurements);
    let text = if args.json {
        json(&rows)?
    } else {
        format_table(&rows)
    };
    let result = results.into_result();
    Ok(Report { text, result })
}

/// Groups the measurements by operation and size. Leaves out rows without a result from both sides.
fn rows(measurements: &[Measurement]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for measurement in measurements {
        let kind = TestKind(measurement.test.kind);
        let operation = ALL_OPERATIONS
            .into_iter()
            .find(|operation| operation.kind() == kind);
        let Some((operation, figure)) =
            operation.and_then(|operation| Some((operation, operation.figure(measurement)?)))
        else {
            continue;
        };
        let is_same = |row: &Row| row.operation == operation && row.size == measurement.test.length;
        let at = rows.iter().position(is_same).unwrap_or_else(|| {
            rows.push(Row {
                operation,
                size: measurement.test.length,
                kofi: Vec::new(),
                verbs: Vec::new(),
            });
            rows.len() - 1
        });
        match measurement.test.flags & KOFI_TEST_VERBS {
            0 => rows[at].kofi.push(figure),
            _ => rows[at].verbs.push(figure),
        }
    }
    rows.retain(|row| !row.kofi.is_empty() && !row.verbs.is_empty());
    rows
}

impl Row {
    fn to_json(&self) -> CompareResult {
        let ratios = self.ratios();
        let (kofi, verbs) = (median(&self.kofi), median(&self.verbs));
        CompareResult {
            operation: self.operation,
            size: self.size,
            unit: self.operation.units().1,
            kofi,
            verbs,
            ratio: kofi / verbs,
            ratio_least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_most: ratios.iter().copied().fold(0.0, f64::max),
            rounds: ratios.len(),
        }
    }

    /// Returns the ratio of the two sides in each round.
    fn ratios(&self) -> Vec<f64> {
        let rounds = self.kofi.iter().zip(&self.verbs);
        rounds.map(|(kofi, verbs)| kofi / verbs).collect()
    }

    fn cells(&self) -> Vec<String> {
        let result = self.to_json();
        vec![
            self.operation.name().to_string(),
            size::format(self.size),
            self.operation.units().0.to_string(),
            self.operation.format_figure(result.kofi),
            self.operation.format_figure(result.verbs),
            format!("{:.3}", result.ratio),
            format!("{:.2} to {:.2}", result.ratio_least, result.ratio_most),
        ]
    }
}

/// Returns the median of a slice, which must not be empty.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

fn format_table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let table = table::right_aligned(&HEADER, rows.iter().map(Row::cells));
    format!("medians of all rounds; lower is better for µs, higher for MB/s\n\n{table}")
}

fn json(rows: &[Row]) -> Result<String, Error> {
    let results: Vec<_> = rows.iter().map(Row::to_json).collect();
    json::pretty(&results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::get_string,
        fake::FakeKernel, //
    };
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn compare(kernel: &FakeKernel, line: &[&str]) -> Result<Report, Error> {
        let line = ["compare", "10.0.0.1"].iter().chain(line);
        let args = TestCli::try_parse_from(line).unwrap().args;
        run(kernel.runner(), &args)
    }

    #[test]
    fn the_first_side_alternates_with_each_round() {
        let kernel = FakeKernel::default();
        compare(&kernel, &["-o", "send", "-s", "64", "-r", "3", "-t", "1"]).unwrap();
        let thread = kernel.thread.borrow();
        let ports: Vec<_> = thread
            .started
            .iter()
            .map(|test| get_string(&test.service))
            .collect();
        assert_eq!(ports, ["7471", "7472", "7472", "7471", "7471", "7472"]);
        let is_verbs = |test: &Test| test.flags == KOFI_TEST_VERBS;
        for test in &thread.started {
            assert_eq!(is_verbs(test), get_string(&test.service) == "7472");
            assert_eq!((test.window, test.msec, test.length), (16, 1000, 64));
        }
    }

    #[test]
    fn the_table_has_both_sides_and_their_ratio() {
        let report = compare(&FakeKernel::with_offers(1), &["-s", "64,4K"]).unwrap();
        report.result.unwrap();
        assert_eq!(report.text + "\n", include_str!("golden/compare.txt"));
    }

    #[test]
    fn json_is_an_array_of_objects() {
        let line = ["-o", "pingpong", "-s", "64", "--json"];
        let report = compare(&FakeKernel::default(), &line).unwrap();
        assert_eq!(report.text + "\n", include_str!("golden/compare.json"));
    }

    #[test]
    fn atomics_are_left_out_if_the_device_has_none() {
        let kernel = FakeKernel::with_offers(0);
        compare(&kernel, &["-s", "64", "-r", "1"]).unwrap();
        let atomic = TestKind::KOFI_TEST_ATOMIC.0;
        let thread = kernel.thread.borrow();
        assert!(thread.started.iter().all(|test| test.kind != atomic));
        assert_eq!(thread.started.len(), 8);
        let query = kernel.queries.borrow()[0];
        assert_eq!(get_string(&query.node), "10.0.0.1");
        assert_eq!(query.ep_type, 1);
    }

    #[test]
    fn the_atomic_operation_is_an_addition_to_a_uint64() {
        let kernel = FakeKernel::default();
        compare(&kernel, &["-o", "atomic", "-r", "1"]).unwrap();
        let test = kernel.thread.borrow().started[0];
        assert_eq!((test.op, test.datatype, test.length), (2, 4, 8));
    }

    #[test]
    fn a_row_needs_results_from_both_sides() {
        let kernel = FakeKernel::default();
        // The interrupt comes while the second test runs.
        kernel.interrupt_at.set(Some(5));
        let report = compare(&kernel, &["-o", "send", "-s", "64", "-t", "1"]).unwrap();
        assert_eq!(report.text, "");
        assert!(matches!(report.result, Err(Error::Interrupted)));
    }

    #[test]
    fn the_ratio_is_of_the_medians_with_the_range_of_the_rounds() {
        let row = Row {
            operation: Operation::Send,
            size: 64,
            kofi: vec![1.0, 6.0, 3.0],
            verbs: vec![2.0, 4.0, 4.0],
        };
        let result = row.to_json();
        let ratios = [result.ratio_least, result.ratio, result.ratio_most];
        assert_eq!(
            ratios.map(|ratio| ratio.to_string()),
            ["0.5", "0.75", "1.5"]
        );
        assert_eq!(row.cells()[5..], ["0.750", "0.50 to 1.50"]);
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_their_mean() {
        let shown = |figures: &[f64]| median(figures).to_string();
        assert_eq!(shown(&[3.0]), "3");
        assert_eq!(shown(&[4.0, 1.0]), "2.5");
        assert_eq!(shown(&[9.0, 1.0, 2.0]), "2");
    }
}
