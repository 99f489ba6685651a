// SPDX-License-Identifier: GPL-2.0

//! `kofi compare`: the same tests over the fabric interfaces, and over verbs by hand.
//!
//! Both take turns, and who begins changes: what drifts meets both alike.

use crate::{
    abi::{
        Test,
        TestKind,
        TextType,
        KOFI_TEST_VERBS, //
    },
    client::{
        self,
        Measured, //
    },
    error::Error,
    json,
    kernel::Kernel,
    latency::{
        self,
        per_second,
        show_ns,
        Share, //
    },
    names::{
        parse_value,
        Names, //
    },
    runner::{
        Place,
        Report,
        Runner, //
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

/// Bytes of the one element that both can change atomically.
const WORD: u64 = 8;

/// What is compared.
#[derive(clap::ValueEnum, Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Operation {
    /// Messages there and back: half of the time
    Pingpong,
    /// Messages to the server, a window at a time
    Send,
    /// Writes to its memory
    Write,
    /// Reads of its memory
    Read,
    /// Atomic additions to its memory: the time of one
    Atomic,
}

const ALL: [Operation; 5] = [
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
    place: Place,

    /// What to compare, or several in turn: everything that the device has, if not told otherwise
    #[arg(short, long, value_enum, value_name = "LIST", value_delimiter = ',')]
    operation: Vec<Operation>,

    /// Bytes of a message, or several sizes in turn, such as 64,4K,1M
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

    /// How many seconds each takes in each round
    #[arg(short, long, value_name = "SECONDS", default_value = "0.25", value_parser = size::parse_msec)]
    time: u32,

    /// How many rounds
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Results as an array of JSON objects, in bytes per second and nanoseconds, of a whole round trip
    #[arg(long)]
    json: bool,
}

/// Figures of one test, in the order of the rounds.
struct Row {
    operation: Operation,
    size: u64,
    kofi: Vec<f64>,
    verbs: Vec<f64>,
}

/// The same in JSON.
#[derive(Serialize)]
struct Object {
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

    /// Of the figure, in a table and in JSON.
    fn units(self) -> (&'static str, &'static str) {
        if self.is_timed() {
            ("µs", "ns")
        } else {
            ("MB/s", "bytes/s")
        }
    }

    /// The figure as a table has it.
    fn show(self, figure: f64) -> String {
        match self {
            Self::Pingpong => show_ns(figure, Share::Half),
            Self::Atomic => show_ns(figure, Share::Whole),
            _ => table::decimal(Some(figure / 1e6), 2),
        }
    }

    /// The median time in ns, or bytes per second.
    fn figure(self, measured: &Measured) -> Option<f64> {
        let Measured { watch, buckets, .. } = measured;
        if self.is_timed() {
            latency::median(buckets)
        } else {
            per_second(watch.bytes, watch.nsec)
        }
    }
}

impl Args {
    /// What is compared: where nothing is asked for, all that the way to the server has.
    fn operations(&self, kernel: &dyn Kernel) -> Result<Vec<Operation>, Error> {
        if !self.operation.is_empty() {
            return Ok(self.operation.clone());
        }
        let mut query = self.place.query(&self.address)?;
        let caps = Names::of_flags(kernel, TextType::KOFI_TEXT_CAPS)?;
        query.caps = caps.find("--operation", "atomic")?;
        // Datagrams have them where connections have none.
        let ep_type = TextType::KOFI_TEXT_EP_TYPE;
        query.ep_type = parse_value(kernel, ep_type, "--operation", "msg")?;
        match kernel.offers(&query) {
            Ok(_) => Ok(ALL.to_vec()),
            Err(Error::NothingFits) => Ok(ALL[..ALL.len() - 1].to_vec()),
            Err(error) => Err(error),
        }
    }

    fn test(&self, operation: Operation, size: u64, types: &Types) -> Result<Test, Error> {
        let window = match operation {
            Operation::Pingpong | Operation::Atomic => 0,
            _ => self.window.of(size)?,
        };
        let is_atomic = operation == Operation::Atomic;
        Ok(Test {
            length: size,
            window,
            msec: self.time,
            op: if is_atomic { types.sum } else { 0 },
            datatype: if is_atomic { types.word } else { 0 },
            ..self.place.test(operation.kind(), &self.address)?
        })
    }

    /// Each as often as there are rounds, on both sides.
    fn tests(&self, kernel: &dyn Kernel) -> Result<Vec<Test>, Error> {
        let types = Types::of(kernel)?;
        let mut tests = Vec::new();
        for operation in self.operations(kernel)? {
            let sizes = match operation {
                Operation::Atomic => &[WORD][..],
                _ => &self.size,
            };
            for &size in sizes {
                let over_fabric = self.test(operation, size, &types)?;
                let by_hand = self.place.by_hand(&over_fabric)?;
                for round in 0..self.rounds {
                    tests.extend(match round % 2 {
                        0 => [over_fabric, by_hand],
                        _ => [by_hand, over_fabric],
                    });
                }
            }
        }
        Ok(tests)
    }
}

/// The kernel's numbers for what both sides can do atomically.
struct Types {
    sum: u32,
    word: u32,
}

impl Types {
    fn of(kernel: &dyn Kernel) -> Result<Self, Error> {
        let number = |kind, word| parse_value(kernel, kind, "--operation", word);
        Ok(Self {
            sum: number(TextType::KOFI_TEXT_ATOMIC_OP, "sum")?,
            word: number(TextType::KOFI_TEXT_DATATYPE, "uint64")?,
        })
    }
}

/// What the command prints.
pub fn run(runner: Runner<'_>, args: &Args) -> Result<Report, Error> {
    let name = format!(
        "compare with {} and {}",
        args.place.show(&args.address),
        args.place.beside().show(&args.address)
    );
    let runs = client::run(runner, &name, &args.tests(runner.kernel)?);
    let rows = rows(&runs.measured);
    let text = if args.json {
        json(&rows)?
    } else {
        shown(&rows)
    };
    let end = runs.into_end();
    Ok(Report { text, end })
}

/// What was measured on both sides.
fn rows(measured: &[Measured]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for one in measured {
        let kind = TestKind(one.test.kind);
        let operation = ALL.into_iter().find(|operation| operation.kind() == kind);
        let Some((operation, figure)) = operation.and_then(|it| Some((it, it.figure(one)?))) else {
            continue;
        };
        let is_same = |row: &Row| row.operation == operation && row.size == one.test.length;
        let at = rows.iter().position(is_same).unwrap_or_else(|| {
            rows.push(Row {
                operation,
                size: one.test.length,
                kofi: Vec::new(),
                verbs: Vec::new(),
            });
            rows.len() - 1
        });
        match one.test.flags & KOFI_TEST_VERBS {
            0 => rows[at].kofi.push(figure),
            _ => rows[at].verbs.push(figure),
        }
    }
    rows.retain(|row| !row.kofi.is_empty() && !row.verbs.is_empty());
    rows
}

impl Row {
    fn object(&self) -> Object {
        let ratios = self.ratios();
        let (kofi, verbs) = (median(&self.kofi), median(&self.verbs));
        Object {
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

    /// Of each round.
    fn ratios(&self) -> Vec<f64> {
        let rounds = self.kofi.iter().zip(&self.verbs);
        rounds.map(|(kofi, verbs)| kofi / verbs).collect()
    }

    fn cells(&self) -> Vec<String> {
        let object = self.object();
        vec![
            self.operation.name().to_string(),
            size::show(self.size),
            self.operation.units().0.to_string(),
            self.operation.show(object.kofi),
            self.operation.show(object.verbs),
            format!("{:.3}", object.ratio),
            format!("{:.2} to {:.2}", object.ratio_least, object.ratio_most),
        ]
    }
}

/// Of a list that is not empty.
fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

fn shown(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let table = table::of_numbers(&HEADER, rows.iter().map(Row::cells));
    format!("medians of the rounds; of times less is better, of MB/s more\n\n{table}")
}

fn json(rows: &[Row]) -> Result<String, Error> {
    let objects: Vec<_> = rows.iter().map(Row::object).collect();
    json::pretty(&objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::string,
        fake::Fake, //
    };
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn compare(kernel: &Fake, line: &[&str]) -> Result<Report, Error> {
        let line = ["compare", "10.0.0.1"].iter().chain(line);
        let args = Line::try_parse_from(line).unwrap().args;
        run(kernel.runner(), &args)
    }

    #[test]
    fn who_begins_changes_with_the_round() {
        let kernel = Fake::default();
        compare(&kernel, &["-o", "send", "-s", "64", "-r", "3", "-t", "1"]).unwrap();
        let thread = kernel.thread.borrow();
        let ports: Vec<_> = thread
            .started
            .iter()
            .map(|test| string(&test.service))
            .collect();
        assert_eq!(ports, ["7471", "7472", "7472", "7471", "7471", "7472"]);
        let is_by_hand = |test: &Test| test.flags == KOFI_TEST_VERBS;
        for test in &thread.started {
            assert_eq!(is_by_hand(test), string(&test.service) == "7472");
            assert_eq!((test.window, test.msec, test.length), (16, 1000, 64));
        }
    }

    #[test]
    fn a_table_has_both_sides_and_their_ratio() {
        let report = compare(&Fake::with_offers(1), &["-s", "64,4K"]).unwrap();
        report.end.unwrap();
        assert_eq!(report.text + "\n", include_str!("golden/compare.txt"));
    }

    #[test]
    fn json_is_an_array_of_objects() {
        let line = ["-o", "pingpong", "-s", "64", "--json"];
        let report = compare(&Fake::default(), &line).unwrap();
        assert_eq!(report.text + "\n", include_str!("golden/compare.json"));
    }

    #[test]
    fn without_atomics_on_the_way_there_are_none() {
        let kernel = Fake::with_offers(0);
        compare(&kernel, &["-s", "64", "-r", "1"]).unwrap();
        let atomic = TestKind::KOFI_TEST_ATOMIC.0;
        let thread = kernel.thread.borrow();
        assert!(thread.started.iter().all(|test| test.kind != atomic));
        assert_eq!(thread.started.len(), 8);
        let asked = kernel.asked.borrow()[0];
        assert_eq!(string(&asked.node), "10.0.0.1");
        assert_eq!(asked.ep_type, 1);
    }

    #[test]
    fn atomics_are_additions_to_a_word() {
        let kernel = Fake::default();
        compare(&kernel, &["-o", "atomic", "-r", "1"]).unwrap();
        let test = kernel.thread.borrow().started[0];
        assert_eq!((test.op, test.datatype, test.length), (2, 4, 8));
    }

    #[test]
    fn one_side_alone_is_no_comparison() {
        let kernel = Fake::default();
        // While the second test is on its way.
        kernel.interrupt_at.set(Some(5));
        let report = compare(&kernel, &["-o", "send", "-s", "64", "-t", "1"]).unwrap();
        assert_eq!(report.text, "");
        assert!(matches!(report.end, Err(Error::Interrupted)));
    }

    #[test]
    fn a_ratio_is_that_of_the_medians_between_those_of_the_rounds() {
        let row = Row {
            operation: Operation::Send,
            size: 64,
            kofi: vec![1.0, 6.0, 3.0],
            verbs: vec![2.0, 4.0, 4.0],
        };
        let object = row.object();
        let ratios = [object.ratio_least, object.ratio, object.ratio_most];
        assert_eq!(
            ratios.map(|ratio| ratio.to_string()),
            ["0.5", "0.75", "1.5"]
        );
        assert_eq!(row.cells()[5..], ["0.750", "0.50 to 1.50"]);
    }

    #[test]
    fn medians_are_those_of_the_values() {
        let shown = |figures: &[f64]| median(figures).to_string();
        assert_eq!(shown(&[3.0]), "3");
        assert_eq!(shown(&[4.0, 1.0]), "2.5");
        assert_eq!(shown(&[9.0, 1.0, 2.0]), "2");
    }
}
