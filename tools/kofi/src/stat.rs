// SPDX-License-Identifier: GPL-2.0

//! `kofi stat`: what endpoints and queues are doing, over and over.

use crate::{
    abi::ObjectValue as Is,
    error::Error,
    json,
    kernel::Kernel,
    object_tree::{
        forest,
        Node, //
    },
    size,
    table::{
        of_numbers,
        optional,
        short, //
    },
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::Write,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    },
    thread::sleep,
    time::{
        Duration,
        Instant, //
    },
};

/// How long it takes at most to see ctrl-c.
const STEP: Duration = Duration::from_millis(50);

/// What has a terminal begin anew at its top left.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(clap::Args)]
pub struct Args {
    /// Seconds between two looks
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = size::parse_msec)]
    interval: u32,

    /// How many looks, without a bound if not told
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// One look, at all that has been done since the objects were opened
    #[arg(long, conflicts_with_all = ["count", "interval"])]
    once: bool,

    /// Only what belongs to this domain, which is a device
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,

    /// A JSON object on a line for each look
    #[arg(long)]
    json: bool,
}

/// One object that does something, at one time.
struct Doer {
    node: Node,
    domain: String,
}

impl Doer {
    fn get(&self, what: Is) -> u64 {
        self.node.value(what).unwrap_or_default()
    }

    fn sum(&self, of: &[Is]) -> u64 {
        of.iter().map(|&what| self.get(what)).sum()
    }
}

/// All of them, and when that was.
struct Look {
    doers: Vec<Doer>,
    at: Duration,
}

impl Look {
    fn new(kernel: &dyn Kernel, args: &Args, at: Duration) -> Result<Self, Error> {
        let mut doers = Vec::new();
        for root in forest(kernel)? {
            for domain in root.children {
                let name = domain.name.unwrap_or_default();
                let is_wanted = args.domain.as_ref().is_none_or(|wanted| *wanted == name);
                let of_domain = domain.children.into_iter().filter(|_| is_wanted);
                doers.extend(of_domain.map(|node| Doer {
                    node,
                    domain: name.clone(),
                }));
            }
        }
        Ok(Self { doers, at })
    }
}

/// Two looks, or one and the time when nothing had been done yet.
struct Change<'a> {
    before: BTreeMap<u64, &'a Doer>,
    /// None where all is told that there ever was.
    seconds: Option<f64>,
}

impl<'a> Change<'a> {
    fn new(before: Option<&'a Look>, now: &Look) -> Self {
        let doers = before.into_iter().flat_map(|look| &look.doers);
        Self {
            before: doers.map(|doer| (doer.node.id, doer)).collect(),
            seconds: before.map(|look| (now.at.saturating_sub(look.at)).as_secs_f64().max(1e-6)),
        }
    }

    /// How much of it there was since, in a second or at all.
    #[expect(
        clippy::cast_precision_loss,
        reason = "rates are shown with few digits"
    )]
    fn rate(&self, doer: &Doer, of: &[Is]) -> f64 {
        let before = self.before.get(&doer.node.id);
        let more = doer
            .sum(of)
            .saturating_sub(before.map_or(0, |before| before.sum(of)));
        more as f64 / self.seconds.unwrap_or(1.0)
    }

    fn show(&self, doer: &Doer, of: &[Is]) -> String {
        short(self.rate(doer, of))
    }
}

/// How full something is.
fn depth(doer: &Doer, depth: Is, size: Is) -> String {
    format!("{}/{}", doer.get(depth), doer.get(size))
}

/// What stands above the columns, some of which have rates: of all that there ever was there are none.
fn header<const N: usize>(change: &Change<'_>, heads: [&'static str; N]) -> [&'static str; N] {
    heads.map(|head| match change.seconds {
        Some(_) => head,
        None => head.trim_end_matches("/s"),
    })
}

fn endpoints(change: &Change<'_>, now: &Look) -> String {
    let heads = [
        "ep",
        "owner",
        "domain",
        "state",
        "peer",
        "tx",
        "rx",
        "sends/s",
        "receives/s",
        "rma/s",
        "atomics/s",
        "B out/s",
        "B in/s",
        "errors",
        "again/s",
    ];
    let rows = now.doers.iter().filter(|doer| doer.node.kind == "ep");
    let row = |doer: &Doer| {
        vec![
            doer.node.id.to_string(),
            doer.node.owner.show(),
            doer.domain.clone(),
            doer.node.state.clone(),
            optional(doer.node.peer.clone()),
            depth(doer, Is::KOFI_VALUE_TX_DEPTH, Is::KOFI_VALUE_TX_SIZE),
            depth(doer, Is::KOFI_VALUE_RX_DEPTH, Is::KOFI_VALUE_RX_SIZE),
            change.show(doer, &[Is::KOFI_VALUE_SENDS]),
            change.show(doer, &[Is::KOFI_VALUE_RECEIVES]),
            change.show(doer, &[Is::KOFI_VALUE_WRITES, Is::KOFI_VALUE_READS]),
            change.show(doer, &[Is::KOFI_VALUE_ATOMICS]),
            change.show(doer, &[Is::KOFI_VALUE_TX_BYTES]),
            change.show(doer, &[Is::KOFI_VALUE_RX_BYTES]),
            doer.sum(&[Is::KOFI_VALUE_TX_ERRORS, Is::KOFI_VALUE_RX_ERRORS])
                .to_string(),
            change.show(doer, &[Is::KOFI_VALUE_TX_AGAIN, Is::KOFI_VALUE_RX_AGAIN]),
        ]
    };
    of_numbers(&header(change, heads), rows.map(row))
}

fn queues(change: &Change<'_>, now: &Look) -> String {
    let heads = [
        "cq",
        "owner",
        "domain",
        "size",
        "entries/s",
        "errors",
        "overruns",
        "callbacks/s",
    ];
    let rows = now.doers.iter().filter(|doer| doer.node.kind == "cq");
    let row = |doer: &Doer| {
        vec![
            doer.node.id.to_string(),
            doer.node.owner.show(),
            doer.domain.clone(),
            doer.get(Is::KOFI_VALUE_SIZE).to_string(),
            change.show(doer, &[Is::KOFI_VALUE_ENTRIES]),
            doer.get(Is::KOFI_VALUE_ERRORS).to_string(),
            doer.get(Is::KOFI_VALUE_OVERRUNS).to_string(),
            change.show(doer, &[Is::KOFI_VALUE_CALLBACKS]),
        ]
    };
    of_numbers(&header(change, heads), rows.map(row))
}

#[derive(Serialize)]
struct Shown<'a> {
    /// Between this look and the one before; none of the first.
    seconds: Option<f64>,
    objects: Vec<ShownDoer<'a>>,
}

#[derive(Serialize)]
struct ShownDoer<'a> {
    domain: &'a str,
    #[serde(flatten)]
    node: &'a Node,
    /// In a second, by the names of the values.
    rates: Option<BTreeMap<&'a str, f64>>,
}

fn json(change: &Change<'_>, now: &Look) -> Result<String, Error> {
    let rates = |doer: &'_ Doer| {
        let values = doer.node.values.iter();
        let counted = values.filter(|value| value.is_counted());
        let pairs = counted.map(|value| (value.name.clone(), change.rate(doer, &[value.what])));
        pairs.collect::<Vec<_>>()
    };
    let all: Vec<_> = now.doers.iter().map(rates).collect();
    let objects = now.doers.iter().zip(&all).map(|(doer, rates)| ShownDoer {
        domain: &doer.domain,
        node: &doer.node,
        rates: change.seconds.map(|_| {
            rates
                .iter()
                .map(|(name, rate)| (name.as_str(), *rate))
                .collect()
        }),
    });
    let shown = Shown {
        seconds: change.seconds,
        objects: objects.collect(),
    };
    json::line(&shown)
}

fn show(args: &Args, before: Option<&Look>, now: &Look) -> Result<String, Error> {
    let change = Change::new(before, now);
    if args.json {
        return json(&change, now);
    }
    if !now
        .doers
        .iter()
        .any(|doer| ["ep", "cq"].contains(&doer.node.kind.as_str()))
    {
        return Ok("no endpoint or queue is open".to_string());
    }
    Ok(format!(
        "{}\n\n{}",
        endpoints(&change, now),
        queues(&change, now)
    ))
}

/// Shows on `out`, a terminal or not, what goes on, until `stop` or often enough.
pub fn run(
    kernel: &dyn Kernel,
    args: &Args,
    stop: &AtomicBool,
    is_terminal: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let start = Instant::now();
    let mut before = Look::new(kernel, args, start.elapsed())?;
    if args.once {
        writeln!(out, "{}", show(args, None, &before)?)?;
        return Ok(());
    }
    let mut left = args.count.unwrap_or(u64::MAX);
    let interval = Duration::from_millis(args.interval.into());
    while left > 0 && wait(before.at + interval, start, stop) {
        let now = Look::new(kernel, args, start.elapsed())?;
        let text = show(args, Some(&before), &now)?;
        if args.json {
            writeln!(out, "{text}")?;
        } else if is_terminal {
            writeln!(out, "{CLEAR}{text}")?;
        } else {
            writeln!(out, "{text}\n")?;
        }
        out.flush()?;
        before = now;
        left -= 1;
    }
    Ok(())
}

/// Waits until so long after `start`; false where somebody wants an end first.
fn wait(until: Duration, start: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        match until.saturating_sub(start.elapsed()) {
            Duration::ZERO => return true,
            left => sleep(left.min(STEP)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        let line = ["stat"].iter().chain(line);
        Line::try_parse_from(line).unwrap().args
    }

    /// What is shown two seconds after everything has begun: all of it, or what was done since.
    fn shown(line: &[&str], since: bool) -> String {
        let (kernel, args) = (Fake::with_objects(), args(line));
        let before = Look::new(&kernel, &args, Duration::ZERO).unwrap();
        kernel.go_on();
        let now = Look::new(&kernel, &args, Duration::from_secs(2)).unwrap();
        show(&args, Some(&before).filter(|_| since), &now).unwrap() + "\n"
    }

    #[test]
    fn once_tells_all_that_has_been_done() {
        assert_eq!(
            shown(&["--once"], false),
            include_str!("golden/stat_once.txt")
        );
    }

    #[test]
    fn a_second_look_tells_what_is_done_in_a_second() {
        assert_eq!(shown(&[], true), include_str!("golden/stat.txt"));
    }

    #[test]
    fn json_is_an_object_with_rates() {
        assert_eq!(shown(&["--json"], true), include_str!("golden/stat.json"));
    }

    #[test]
    fn nothing_is_said_of_other_domains() {
        assert_eq!(
            shown(&["-d", "mlx5_0"], true),
            "no endpoint or queue is open\n"
        );
    }

    #[test]
    fn it_looks_as_often_as_it_is_told_to() {
        let mut out = Vec::new();
        let args = args(&["-n", "3", "-i", "0.01"]);
        run(
            &Fake::with_objects(),
            &args,
            &AtomicBool::new(false),
            true,
            &mut out,
        )
        .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(CLEAR).count(), 3);
        assert_eq!(text.matches("callbacks/s").count(), 3);
    }

    #[test]
    fn ctrl_c_ends_it() {
        let mut out = Vec::new();
        let args = args(&["-i", "1000"]);
        run(
            &Fake::with_objects(),
            &args,
            &AtomicBool::new(true),
            false,
            &mut out,
        )
        .unwrap();
        assert!(out.is_empty());
    }
}
