// SPDX-License-Identifier: GPL-2.0

//! `kofi selftest`: whether kOFI works on this machine, and what each of its devices can do.
//!
//! Each address of a device is served by the kernel, and is its client too: no other machine is needed.

use crate::{
    abi::{
        string,
        Query,
        Test,
        TestKind,
        TextType,
        KOFI_INFO_SOURCE,
        KOFI_TEST_VERIFY, //
    },
    client,
    error::Error,
    json,
    kernel::Kernel,
    latency::{
        self,
        per_second,
        show_ns,
        Share, //
    },
    names::Names,
    runner::{
        self,
        Background,
        Place,
        Report,
        Run,
        Runner, //
    },
    size,
    table, //
};
use serde::Serialize;
use std::{
    net::IpAddr,
    time::{
        Duration,
        Instant, //
    },
};

const HEADER: [&str; 4] = ["device", "address", "test", "result"];

/// Sizes of messages: the smallest, a page and a byte, and the largest.
const SIZES: [u64; 5] = [1, 64, 4097, 65536, 1 << 20];

/// How many there and back of each size, and operations of each kind, at most.
const COUNT: u64 = 50;

/// How many may be under way where several are.
const WINDOW: u32 = 16;

/// How long each takes at most, in ms.
const MSEC: u32 = 500;

/// What takes longer has not ended, and will not.
const PATIENCE: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,

    /// Results as an array of JSON objects
    #[arg(long)]
    json: bool,
}

/// What is tried.
#[derive(Clone)]
struct Trial {
    name: String,
    tests: Vec<Test>,
}

/// What came of it.
#[derive(Serialize)]
struct Outcome {
    device: String,
    address: String,
    test: String,
    passed: bool,
    result: String,
}

/// A device at an address of its own.
struct Site {
    device: String,
    address: String,
    caps: u64,
}

/// Addresses of this machine that others reach it by, whatever stands behind them.
pub fn addresses() -> Result<Vec<IpAddr>, Error> {
    let all = if_addrs::get_if_addrs()?;
    let usable = all
        .into_iter()
        .filter(|one| !one.is_loopback() && !one.is_link_local());
    Ok(usable.map(|one| one.ip()).collect())
}

/// The devices that have one of the addresses.
fn sites(kernel: &dyn Kernel, place: &Place, addresses: &[IpAddr]) -> Result<Vec<Site>, Error> {
    let mut sites: Vec<Site> = Vec::new();
    for address in addresses {
        let address = address.to_string();
        let query = Query {
            flags: KOFI_INFO_SOURCE,
            ..place.query(&address)?
        };
        let offers = match kernel.offers(&query) {
            Err(Error::NothingFits) => continue,
            offers => offers?,
        };
        for offer in offers {
            let device = string(&offer.domain_name);
            let is_it = |site: &Site| site.device == device && site.address == address;
            if !sites.iter().any(is_it) {
                sites.push(Site {
                    device,
                    address: address.clone(),
                    caps: offer.caps,
                });
            }
        }
    }
    Ok(sites)
}

/// What is to blame where the kernel does not know a name: no option of this command has it.
const NAMES: &str = "names of the kernel";

/// The names that the trials need.
struct Words {
    caps: Names,
    ops: Names,
    types: Names,
}

impl Words {
    fn of(kernel: &dyn Kernel) -> Result<Self, Error> {
        Ok(Self {
            caps: Names::of_flags(kernel, TextType::KOFI_TEXT_CAPS)?,
            ops: Names::of_values(kernel, TextType::KOFI_TEXT_ATOMIC_OP)?,
            types: Names::of_values(kernel, TextType::KOFI_TEXT_DATATYPE)?,
        })
    }

    fn has(&self, site: &Site, cap: &str) -> Result<bool, Error> {
        Ok(site.caps & self.caps.find(NAMES, cap)? != 0)
    }
}

/// What the command prints, on a machine with these addresses.
pub fn run(
    runner: Runner<'_>,
    beside: &dyn Kernel,
    args: &Args,
    addresses: &[IpAddr],
) -> Result<Report, Error> {
    let words = Words::of(runner.kernel)?;
    // No device, or none of that name, says more than that none has an address.
    runner.kernel.offers(&args.place.anywhere()?)?;
    let sites = sites(runner.kernel, &args.place, addresses)?;
    if sites.is_empty() {
        return Err(Error::NoAddress);
    }
    let mut outcomes = Vec::new();
    let end = sites
        .iter()
        .try_for_each(|site| try_site(runner, beside, args, &words, site, &mut outcomes));
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    let text = if args.json {
        json::pretty(&outcomes)?
    } else {
        shown(&outcomes, failed)
    };
    let verdict = match failed {
        0 => Ok(()),
        count => Err(Error::NotWorking { count }),
    };
    let end = end.and(verdict);
    Ok(Report { text, end })
}

fn try_site(
    runner: Runner<'_>,
    beside: &dyn Kernel,
    args: &Args,
    words: &Words,
    site: &Site,
    outcomes: &mut Vec<Outcome>,
) -> Result<(), Error> {
    let place = args.place.on(&site.device);
    let mut tell = |test: &str, result: Result<String, Error>| -> Result<(), Error> {
        if matches!(result, Err(Error::Interrupted)) {
            return Err(Error::Interrupted);
        }
        outcomes.push(Outcome {
            device: site.device.clone(),
            address: site.address.clone(),
            test: test.to_string(),
            passed: result.is_ok(),
            result: result.unwrap_or_else(|error| format!("FAILED: {error}")),
        });
        Ok(())
    };
    let test = place.test(TestKind::KOFI_TEST_SERVER, &site.address)?;
    let server = match Background::start(beside, "server", &test) {
        Ok(server) => server,
        Err(error @ Error::Failed { .. }) => return tell("listen", Err(error)),
        Err(error) => return Err(error),
    };
    for trial in trials(&place, site, words)? {
        let result = trial.run(runner, PATIENCE);
        // Without a connection, all others take their time and tell no more.
        let is_cut = matches!(result, Err(Error::Failed { .. })) && trial.name == PINGPONG;
        tell(&trial.name, result)?;
        if is_cut {
            break;
        }
    }
    let watch = server.end()?;
    match runner::check(watch.damaged, Ok(())) {
        Ok(()) => Ok(()),
        Err(damage) => tell("messages as they were sent", Err(damage)),
    }
}

const PINGPONG: &str = "messages there and back";

/// What can be tried of what a device offers.
fn trials(place: &Place, site: &Site, words: &Words) -> Result<Vec<Trial>, Error> {
    let test = |kind: TestKind, length: u64| -> Result<Test, Error> {
        Ok(Test {
            flags: KOFI_TEST_VERIFY,
            length,
            ..place.test(kind, &site.address)?
        })
    };
    let counted = |test: Test| Test {
        count: COUNT,
        msec: MSEC,
        ..test
    };
    let windowed = |test: Test| Test {
        window: WINDOW,
        msec: MSEC,
        ..test
    };
    let mut trials = Vec::new();
    let mut add = |name: &str, tests: Result<Vec<Test>, Error>| -> Result<(), Error> {
        trials.push(Trial {
            name: name.to_string(),
            tests: tests?,
        });
        Ok(())
    };
    let ping = |&length: &u64| Ok(counted(test(TestKind::KOFI_TEST_PINGPONG, length)?));
    add(PINGPONG, SIZES.iter().map(ping).collect())?;
    let sent =
        |kind, length| -> Result<Vec<Test>, Error> { Ok(vec![windowed(test(kind, length)?)]) };
    add("messages, 64K", sent(TestKind::KOFI_TEST_STREAM, 65536))?;
    if words.has(site, "rma")? {
        add("writes, 64K", sent(TestKind::KOFI_TEST_WRITE, 65536))?;
        add("reads, 64K", sent(TestKind::KOFI_TEST_READ, 65536))?;
    }
    if words.has(site, "atomic")? {
        let word = words.types.find_value(NAMES, "uint64")?;
        for name in ["sum", "cswap", "min", "bxor"] {
            let change = Test {
                op: words.ops.find_value(NAMES, name)?,
                datatype: word,
                ..counted(test(TestKind::KOFI_TEST_ATOMIC, 8)?)
            };
            add(&format!("atomic {name}"), Ok(vec![change]))?;
        }
    }
    Ok(trials)
}

impl Trial {
    /// What it came to, in a few words. Each of its tests is given up after `patience`.
    fn run(&self, runner: Runner<'_>, patience: Duration) -> Result<String, Error> {
        let mut results = Vec::new();
        for test in &self.tests {
            let begun = Instant::now();
            let ran = runner.run(&self.name, test, client::LOOK, |_| match begun.elapsed() {
                time if time > patience => Err(Error::NoEnd),
                _ => Ok(()),
            });
            let Run {
                watch,
                buckets,
                end,
            } = ran.inspect_err(|_| {
                // It has been given up, and is to make room for the next.
                let _ = runner.kernel.stop();
            })?;
            runner::check(watch.damaged, end)?;
            results.push(match TestKind(test.kind) {
                TestKind::KOFI_TEST_PINGPONG => {
                    let time = latency::median(&buckets).unwrap_or_default();
                    let (size, time) = (size::show(test.length), show_ns(time, Share::Half));
                    format!("{size}: {time} µs")
                }
                TestKind::KOFI_TEST_ATOMIC => {
                    let time = latency::median(&buckets).unwrap_or_default();
                    format!("{} µs", show_ns(time, Share::Whole))
                }
                _ => {
                    let rate = per_second(watch.bytes, watch.nsec);
                    format!("{} MB/s", table::decimal(rate.map(|rate| rate / 1e6), 2))
                }
            });
        }
        Ok(results.join(", "))
    }
}

fn shown(outcomes: &[Outcome], failed: usize) -> String {
    let rows = outcomes.iter().map(|outcome| {
        let Outcome {
            device,
            address,
            test,
            result,
            ..
        } = outcome;
        [device, address, test, result].map(String::clone).to_vec()
    });
    let table = table::of_words(&HEADER, rows);
    match failed {
        0 => format!("{table}\n\nkOFI works here."),
        _ => table,
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
        let line = ["selftest"].iter().chain(line);
        Line::try_parse_from(line).unwrap().args
    }

    fn selftest(kernel: &Fake, beside: &Fake, line: &[&str]) -> Result<Report, Error> {
        let own = ["10.0.0.1".parse().unwrap()];
        run(kernel.runner(), beside, &args(line), &own)
    }

    /// The trials at a device with these capabilities.
    fn trials_with(caps: u64) -> Vec<Trial> {
        let words = Words::of(&Fake::default()).unwrap();
        let site = Site {
            device: "rxe0".to_string(),
            address: "10.0.0.1".to_string(),
            caps,
        };
        trials(&args(&[]).place, &site, &words).unwrap()
    }

    #[test]
    fn each_device_is_its_own_client() {
        let (kernel, beside) = (Fake::with_offers(2), Fake::default());
        let report = selftest(&kernel, &beside, &[]).unwrap();
        report.end.unwrap();
        assert_eq!(report.text + "\n", include_str!("golden/selftest.txt"));
        // Two offers of one device at one address are one site.
        let server = beside.thread.borrow().started[0];
        assert_eq!(beside.thread.borrow().started.len(), 1);
        assert_eq!(
            (string(&server.node), string(&server.domain_name)),
            ("10.0.0.1".into(), "rxe0".into())
        );
        assert!(kernel
            .thread
            .borrow()
            .started
            .iter()
            .all(|test| test.flags == KOFI_TEST_VERIFY));
        assert_eq!(beside.thread.borrow().stops, 1);
    }

    #[test]
    fn what_cannot_connect_is_told_once() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        kernel.thread.borrow_mut().error = 111;
        kernel.thread.borrow_mut().is_unable = true;
        let report = selftest(&kernel, &beside, &[]).unwrap();
        assert!(
            report
                .text
                .contains("FAILED: messages there and back: Connection refused"),
            "{}",
            report.text
        );
        assert!(!report.text.contains("works"), "{}", report.text);
        let error = report.end.unwrap_err();
        assert!(matches!(error, Error::NotWorking { count: 1 }), "{error}");
        assert_eq!(kernel.thread.borrow().started.len(), 1);
        assert_eq!(beside.thread.borrow().stops, 1);
    }

    #[test]
    fn a_port_that_is_taken_is_told() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        beside.thread.borrow_mut().error = 98;
        beside.thread.borrow_mut().is_unable = true;
        let report = selftest(&kernel, &beside, &["--json"]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.text).unwrap();
        assert_eq!(json[0]["test"], "listen");
        assert_eq!(json[0]["result"], "FAILED: server: Address already in use");
        assert!(report.end.is_err());
    }

    #[test]
    fn damage_is_a_failure() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        kernel.thread.borrow_mut().damaged = 1;
        let report = selftest(&kernel, &beside, &[]).unwrap();
        assert!(
            report.text.contains("FAILED: 1 messages"),
            "{}",
            report.text
        );
        assert!(report.end.is_err());
    }

    #[test]
    fn damage_that_only_the_server_has_seen_is_a_failure() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        beside.thread.borrow_mut().damaged = 1;
        let report = selftest(&kernel, &beside, &[]).unwrap();
        assert!(
            report.text.contains("messages as they were sent"),
            "{}",
            report.text
        );
        assert!(matches!(report.end, Err(Error::NotWorking { count: 1 })));
    }

    #[test]
    fn what_does_not_end_is_given_up() {
        let kernel = Fake::default();
        let trial = &trials_with(0)[0];
        let given_up = trial.run(kernel.runner(), Duration::ZERO).unwrap_err();
        assert!(matches!(given_up, Error::NoEnd), "{given_up}");
        // It makes room for the next.
        assert_eq!(kernel.thread.borrow().started.len(), 1);
        assert_eq!(kernel.thread.borrow().stops, 1);
    }

    #[test]
    fn ctrl_c_is_no_failure_of_what_it_ends() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        // While the second trial is on its way: the first one has a test for each size.
        kernel.interrupt_at.set(Some(4 * SIZES.len() + 2));
        let report = selftest(&kernel, &beside, &[]).unwrap();
        assert!(report.text.contains(PINGPONG), "{}", report.text);
        assert!(!report.text.contains("messages, 64K"), "{}", report.text);
        assert!(!report.text.contains("FAILED"), "{}", report.text);
        assert!(matches!(report.end, Err(Error::Interrupted)));
    }

    #[test]
    fn what_a_device_has_is_tried() {
        let names = |caps| -> Vec<String> {
            let trials = trials_with(caps).into_iter();
            trials.map(|trial| trial.name).collect()
        };
        assert_eq!(names(0), [PINGPONG, "messages, 64K"]);
        let all = names(u64::MAX);
        assert_eq!(all[2..4], ["writes, 64K", "reads, 64K"]);
        assert!(all[4..].iter().all(|name| name.starts_with("atomic ")));
        let trials = trials_with(u64::MAX);
        let ops: Vec<_> = trials[4..].iter().map(|trial| trial.tests[0].op).collect();
        assert_eq!(ops, [2, 4, 0, 3]);
        assert!(trials[4..]
            .iter()
            .all(|trial| (trial.tests[0].length, trial.tests[0].datatype) == (8, 4)));
    }

    #[test]
    fn each_address_is_tried() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        let own = ["10.0.0.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let report = run(kernel.runner(), &beside, &args(&[]), &own).unwrap();
        report.end.unwrap();
        let thread = beside.thread.borrow();
        let served: Vec<_> = thread
            .started
            .iter()
            .map(|test| string(&test.node))
            .collect();
        assert_eq!(served, ["10.0.0.1", "2001:db8::1"]);
        assert!(report.text.contains(" 2001:db8::1 "), "{}", report.text);
    }

    #[test]
    fn each_address_is_asked_for_as_an_own_one() {
        let kernel = Fake::with_offers(1);
        let own = ["10.0.0.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let place = args(&["-d", "rxe0"]).place;
        let sites = sites(&kernel, &place, &own).unwrap();
        let found: Vec<_> = sites.iter().map(|site| site.address.as_str()).collect();
        assert_eq!(found, ["10.0.0.1", "2001:db8::1"]);
        for (query, address) in kernel.asked.borrow().iter().zip(found) {
            assert_eq!(query.flags, KOFI_INFO_SOURCE);
            assert_eq!(string(&query.node), address);
            assert_eq!(string(&query.domain_name), "rxe0");
        }
    }

    #[test]
    fn without_an_address_there_is_nothing_to_test() {
        let (kernel, beside) = (Fake::with_offers(1), Fake::default());
        let error = run(kernel.runner(), &beside, &args(&[]), &[])
            .err()
            .unwrap();
        assert!(matches!(error, Error::NoAddress), "{error}");
    }

    #[test]
    fn a_device_that_there_is_not_is_told_from_one_without_an_address() {
        let kernel = Fake::with_offers(0);
        let error = selftest(&kernel, &Fake::default(), &["-d", "nothing0"]);
        let error = error.err().unwrap();
        assert!(matches!(error, Error::NothingFits), "{error}");
        let asked = kernel.asked.borrow()[0];
        assert_eq!(string(&asked.domain_name), "nothing0");
        assert_eq!(string(&asked.node), "");
    }

    #[test]
    fn without_a_device_there_is_nothing_to_test() {
        let error = selftest(&Fake::with_offers(0), &Fake::default(), &[])
            .err()
            .unwrap();
        assert!(matches!(error, Error::NoDevice), "{error}");
    }
}
