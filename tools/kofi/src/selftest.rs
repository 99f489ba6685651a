// SPDX-License-Identifier: GPL-2.0

//! `kofi selftest`: tests each device of this machine.
//!
//! The kernel serves each address of a device and is also the client, so that no other machine is
//! needed.

use crate::{
    abi::{
        get_string,
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
        format_time_f64,
        per_second,
        Scale, //
    },
    names::Names,
    runner::{
        self,
        BackgroundServer,
        Report,
        Runner,
        ServerOptions,
        TestRun, //
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

/// Message sizes, from the smallest to the largest; 4097 crosses a page boundary.
const SIZES: [u64; 5] = [1, 64, 4097, 65536, 1 << 20];

/// Maximum number of round trips of each size, and of atomic operations of each kind.
const TEST_COUNT: u64 = 50;

/// Outstanding messages or accesses of a bandwidth test.
const WINDOW: u32 = 16;

/// Maximum duration of each test in ms.
const TEST_MSEC: u32 = 500;

/// Time after which a test counts as hung.
const TEST_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerOptions,

    /// Print an array of JSON objects
    #[arg(long)]
    json: bool,
}

/// Tests that give one row of the report.
#[derive(Clone)]
struct Check {
    name: String,
    tests: Vec<Test>,
}

/// Row of the report.
#[derive(Serialize)]
struct CheckResult {
    device: String,
    address: String,
    test: String,
    passed: bool,
    result: String,
}

/// A device and one of its addresses.
struct DeviceAddress {
    device: String,
    address: String,
    caps: u64,
}

/// Returns the addresses of this machine, except loopback and link-local addresses. Some may not
/// belong to an RDMA device.
pub fn local_addresses() -> Result<Vec<IpAddr>, Error> {
    let all = if_addrs::get_if_addrs()?;
    let usable = all
        .into_iter()
        .filter(|interface| !interface.is_loopback() && !interface.is_link_local());
    Ok(usable.map(|interface| interface.ip()).collect())
}

/// Returns the devices that own the addresses.
fn find_targets(
    kernel: &dyn Kernel,
    options: &ServerOptions,
    addresses: &[IpAddr],
) -> Result<Vec<DeviceAddress>, Error> {
    let mut targets: Vec<DeviceAddress> = Vec::new();
    for address in addresses {
        let address = address.to_string();
        let query = Query {
            flags: KOFI_INFO_SOURCE,
            ..options.path_query(&address)?
        };
        let offers = match kernel.offers(&query) {
            Err(Error::NoMatch) => continue,
            offers => offers?,
        };
        for offer in offers {
            let device = get_string(&offer.domain_name);
            let matches =
                |target: &DeviceAddress| target.device == device && target.address == address;
            if !targets.iter().any(matches) {
                targets.push(DeviceAddress {
                    device,
                    address: address.clone(),
                    caps: offer.caps,
                });
            }
        }
    }
    Ok(targets)
}

/// Text that takes the place of an option name in errors about names that the kernel does not know.
const NAME_SOURCE: &str = "kernel names";

/// Names that the checks need.
struct KernelNames {
    caps: Names,
    ops: Names,
    types: Names,
}

impl KernelNames {
    fn read(kernel: &dyn Kernel) -> Result<Self, Error> {
        Ok(Self {
            caps: Names::read_flags(kernel, TextType::KOFI_TEXT_CAPS)?,
            ops: Names::read_values(kernel, TextType::KOFI_TEXT_ATOMIC_OP)?,
            types: Names::read_values(kernel, TextType::KOFI_TEXT_DATATYPE)?,
        })
    }

    fn has(&self, target: &DeviceAddress, cap: &str) -> Result<bool, Error> {
        Ok(target.caps & self.caps.find(NAME_SOURCE, cap)? != 0)
    }
}

/// Runs all checks at the given addresses and returns the report. The servers run on
/// `server_device`.
pub fn run(
    runner: Runner<'_>,
    server_device: &dyn Kernel,
    args: &Args,
    addresses: &[IpAddr],
) -> Result<Report, Error> {
    let names = KernelNames::read(runner.kernel)?;
    // An unknown or missing device is a better error than a missing address, so it is checked
    // first.
    runner.kernel.offers(&args.server.domain_query()?)?;
    let targets = find_targets(runner.kernel, &args.server, addresses)?;
    if targets.is_empty() {
        return Err(Error::NoAddress);
    }
    let mut results = Vec::new();
    let outcome = targets.iter().try_for_each(|target| {
        check_target(runner, server_device, args, &names, target, &mut results)
    });
    let failed = results.iter().filter(|result| !result.passed).count();
    let text = if args.json {
        json::pretty(&results)?
    } else {
        format_table(&results, failed)
    };
    let verdict = match failed {
        0 => Ok(()),
        count => Err(Error::ChecksFailed { count }),
    };
    let result = outcome.and(verdict);
    Ok(Report { text, result })
}

fn check_target(
    runner: Runner<'_>,
    server_device: &dyn Kernel,
    args: &Args,
    names: &KernelNames,
    target: &DeviceAddress,
    results: &mut Vec<CheckResult>,
) -> Result<(), Error> {
    let options = args.server.with_domain(&target.device);
    let mut record = |test: &str, result: Result<String, Error>| -> Result<(), Error> {
        if matches!(result, Err(Error::Interrupted)) {
            return Err(Error::Interrupted);
        }
        results.push(CheckResult {
            device: target.device.clone(),
            address: target.address.clone(),
            test: test.to_string(),
            passed: result.is_ok(),
            result: result.unwrap_or_else(|error| format!("FAILED: {error}")),
        });
        Ok(())
    };
    let test = options.build_test(TestKind::KOFI_TEST_SERVER, &target.address)?;
    let server = match BackgroundServer::start(server_device, "server", &test) {
        Ok(server) => server,
        Err(error @ Error::TestFailed { .. }) => return record("listen", Err(error)),
        Err(error) => return Err(error),
    };
    for check in build_checks(&options, target, names)? {
        let result = check.run(runner, TEST_TIMEOUT);
        // If the first check cannot connect, the others would only time out.
        let unreachable = matches!(result, Err(Error::TestFailed { .. })) && check.name == PINGPONG;
        record(&check.name, result)?;
        if unreachable {
            break;
        }
    }
    let watch = server.stop()?;
    match runner::check_damage(watch.damaged, Ok(())) {
        Ok(()) => Ok(()),
        Err(damage) => record("message content at the server", Err(damage)),
    }
}

/// Name of the first check.
const PINGPONG: &str = "pingpong";

/// Builds the checks of all features that a device offers.
fn build_checks(
    options: &ServerOptions,
    target: &DeviceAddress,
    names: &KernelNames,
) -> Result<Vec<Check>, Error> {
    let test = |kind: TestKind, length: u64| -> Result<Test, Error> {
        Ok(Test {
            flags: KOFI_TEST_VERIFY,
            length,
            ..options.build_test(kind, &target.address)?
        })
    };
    let counted = |test: Test| Test {
        count: TEST_COUNT,
        msec: TEST_MSEC,
        ..test
    };
    let windowed = |test: Test| Test {
        window: WINDOW,
        msec: TEST_MSEC,
        ..test
    };
    let mut checks = Vec::new();
    let mut add = |name: &str, tests: Result<Vec<Test>, Error>| -> Result<(), Error> {
        checks.push(Check {
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
    if names.has(target, "rma")? {
        add("writes, 64K", sent(TestKind::KOFI_TEST_WRITE, 65536))?;
        add("reads, 64K", sent(TestKind::KOFI_TEST_READ, 65536))?;
    }
    if names.has(target, "atomic")? {
        let uint64 = names.types.find_value(NAME_SOURCE, "uint64")?;
        for name in ["sum", "cswap", "min", "bxor"] {
            let test = Test {
                op: names.ops.find_value(NAME_SOURCE, name)?,
                datatype: uint64,
                ..counted(test(TestKind::KOFI_TEST_ATOMIC, 8)?)
            };
            add(&format!("atomic {name}"), Ok(vec![test]))?;
        }
    }
    Ok(checks)
}

impl Check {
    /// Runs the tests and returns a summary of their figures. Gives up each test after `timeout`.
    fn run(&self, runner: Runner<'_>, timeout: Duration) -> Result<String, Error> {
        let mut results = Vec::new();
        for test in &self.tests {
            let started = Instant::now();
            let run = runner.run(&self.name, test, client::WATCH_MSEC, |_| {
                match started.elapsed() {
                    time if time > timeout => Err(Error::TimedOut),
                    _ => Ok(()),
                }
            });
            let TestRun {
                watch,
                buckets,
                result,
            } = run.inspect_err(|_| {
                // The test may still be running, which would prevent the next one.
                let _ = runner.kernel.stop();
            })?;
            runner::check_damage(watch.damaged, result)?;
            results.push(match TestKind(test.kind) {
                TestKind::KOFI_TEST_PINGPONG => {
                    let time = latency::median(&buckets).unwrap_or_default();
                    let (size, time) = (
                        size::format(test.length),
                        format_time_f64(time, Scale::HalfRoundTrip),
                    );
                    format!("{size}: {time} µs")
                }
                TestKind::KOFI_TEST_ATOMIC => {
                    let time = latency::median(&buckets).unwrap_or_default();
                    format!("{} µs", format_time_f64(time, Scale::Whole))
                }
                _ => {
                    let rate = per_second(watch.bytes, watch.nsec);
                    format!(
                        "{} MB/s",
                        table::format_decimal(rate.map(|rate| rate / 1e6), 2)
                    )
                }
            });
        }
        Ok(results.join(", "))
    }
}

fn format_table(results: &[CheckResult], failed: usize) -> String {
    let rows = results.iter().map(|result| {
        let CheckResult {
            device,
            address,
            test,
            result,
            ..
        } = result;
        [device, address, test, result].map(String::clone).to_vec()
    });
    let table = table::left_aligned(&HEADER, rows);
    match failed {
        0 => format!("{table}\n\nkOFI works here."),
        _ => table,
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

    fn args(line: &[&str]) -> Args {
        let line = ["selftest"].iter().chain(line);
        TestCli::try_parse_from(line).unwrap().args
    }

    fn selftest(
        kernel: &FakeKernel,
        server_device: &FakeKernel,
        line: &[&str],
    ) -> Result<Report, Error> {
        let own = ["10.0.0.1".parse().unwrap()];
        run(kernel.runner(), server_device, &args(line), &own)
    }

    /// Returns the checks for a device with these capabilities.
    fn checks_with(caps: u64) -> Vec<Check> {
        let names = KernelNames::read(&FakeKernel::default()).unwrap();
        let target = DeviceAddress {
            device: "rxe0".to_string(),
            address: "10.0.0.1".to_string(),
            caps,
        };
        build_checks(&args(&[]).server, &target, &names).unwrap()
    }

    #[test]
    fn each_device_is_tested_against_itself() {
        let (kernel, server_device) = (FakeKernel::with_offers(2), FakeKernel::default());
        let report = selftest(&kernel, &server_device, &[]).unwrap();
        report.result.unwrap();
        assert_eq!(report.text + "\n", include_str!("golden/selftest.txt"));
        // Two offers of one device at one address give one target.
        let server = server_device.thread.borrow().started[0];
        assert_eq!(server_device.thread.borrow().started.len(), 1);
        assert_eq!(
            (get_string(&server.node), get_string(&server.domain_name)),
            ("10.0.0.1".into(), "rxe0".into())
        );
        assert!(kernel
            .thread
            .borrow()
            .started
            .iter()
            .all(|test| test.flags == KOFI_TEST_VERIFY));
        assert_eq!(server_device.thread.borrow().stop_count, 1);
    }

    #[test]
    fn a_connection_error_is_reported_once() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        kernel.thread.borrow_mut().error = 111;
        kernel.thread.borrow_mut().fails_at_start = true;
        let report = selftest(&kernel, &server_device, &[]).unwrap();
        assert!(
            report.text.contains("FAILED: pingpong: Connection refused"),
            "{}",
            report.text
        );
        assert!(!report.text.contains("works"), "{}", report.text);
        let error = report.result.unwrap_err();
        assert!(matches!(error, Error::ChecksFailed { count: 1 }), "{error}");
        assert_eq!(kernel.thread.borrow().started.len(), 1);
        assert_eq!(server_device.thread.borrow().stop_count, 1);
    }

    #[test]
    fn a_port_in_use_is_reported() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        server_device.thread.borrow_mut().error = 98;
        server_device.thread.borrow_mut().fails_at_start = true;
        let report = selftest(&kernel, &server_device, &["--json"]).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.text).unwrap();
        assert_eq!(json[0]["test"], "listen");
        assert_eq!(json[0]["result"], "FAILED: server: Address already in use");
        assert!(report.result.is_err());
    }

    #[test]
    fn damaged_messages_fail_a_check() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        kernel.thread.borrow_mut().damaged = 1;
        let report = selftest(&kernel, &server_device, &[]).unwrap();
        assert!(
            report.text.contains("FAILED: 1 messages"),
            "{}",
            report.text
        );
        assert!(report.result.is_err());
    }

    #[test]
    fn damage_seen_by_the_server_alone_fails_a_check() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        server_device.thread.borrow_mut().damaged = 1;
        let report = selftest(&kernel, &server_device, &[]).unwrap();
        assert!(
            report.text.contains("message content at the server"),
            "{}",
            report.text
        );
        assert!(matches!(
            report.result,
            Err(Error::ChecksFailed { count: 1 })
        ));
    }

    #[test]
    fn a_hung_test_is_stopped() {
        let kernel = FakeKernel::default();
        let check = &checks_with(0)[0];
        let given_up = check.run(kernel.runner(), Duration::ZERO).unwrap_err();
        assert!(matches!(given_up, Error::TimedOut), "{given_up}");
        // The hung test was stopped.
        assert_eq!(kernel.thread.borrow().started.len(), 1);
        assert_eq!(kernel.thread.borrow().stop_count, 1);
    }

    #[test]
    fn ctrl_c_is_not_a_failed_check() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        // The interrupt comes during the second check: the first one has a test for each size.
        kernel.interrupt_at.set(Some(4 * SIZES.len() + 2));
        let report = selftest(&kernel, &server_device, &[]).unwrap();
        assert!(report.text.contains(PINGPONG), "{}", report.text);
        assert!(!report.text.contains("messages, 64K"), "{}", report.text);
        assert!(!report.text.contains("FAILED"), "{}", report.text);
        assert!(matches!(report.result, Err(Error::Interrupted)));
    }

    #[test]
    fn checks_match_the_capabilities_of_the_device() {
        let names = |caps| -> Vec<String> {
            let checks = checks_with(caps).into_iter();
            checks.map(|check| check.name).collect()
        };
        assert_eq!(names(0), [PINGPONG, "messages, 64K"]);
        let all = names(u64::MAX);
        assert_eq!(all[2..4], ["writes, 64K", "reads, 64K"]);
        assert!(all[4..].iter().all(|name| name.starts_with("atomic ")));
        let checks = checks_with(u64::MAX);
        let ops: Vec<_> = checks[4..].iter().map(|check| check.tests[0].op).collect();
        assert_eq!(ops, [2, 4, 0, 3]);
        assert!(checks[4..]
            .iter()
            .all(|check| (check.tests[0].length, check.tests[0].datatype) == (8, 4)));
    }

    #[test]
    fn each_local_address_is_checked() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        let own = ["10.0.0.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let report = run(kernel.runner(), &server_device, &args(&[]), &own).unwrap();
        report.result.unwrap();
        let thread = server_device.thread.borrow();
        let served: Vec<_> = thread
            .started
            .iter()
            .map(|test| get_string(&test.node))
            .collect();
        assert_eq!(served, ["10.0.0.1", "2001:db8::1"]);
        assert!(report.text.contains(" 2001:db8::1 "), "{}", report.text);
    }

    #[test]
    fn each_address_is_queried_as_a_source_address() {
        let kernel = FakeKernel::with_offers(1);
        let own = ["10.0.0.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let server = args(&["-d", "rxe0"]).server;
        let targets = find_targets(&kernel, &server, &own).unwrap();
        let found: Vec<_> = targets
            .iter()
            .map(|target| target.address.as_str())
            .collect();
        assert_eq!(found, ["10.0.0.1", "2001:db8::1"]);
        for (query, address) in kernel.queries.borrow().iter().zip(found) {
            assert_eq!(query.flags, KOFI_INFO_SOURCE);
            assert_eq!(get_string(&query.node), address);
            assert_eq!(get_string(&query.domain_name), "rxe0");
        }
    }

    #[test]
    fn a_machine_without_addresses_is_reported() {
        let (kernel, server_device) = (FakeKernel::with_offers(1), FakeKernel::default());
        let error = run(kernel.runner(), &server_device, &args(&[]), &[])
            .err()
            .unwrap();
        assert!(matches!(error, Error::NoAddress), "{error}");
    }

    #[test]
    fn an_unknown_device_is_reported_before_missing_addresses() {
        let kernel = FakeKernel::with_offers(0);
        let error = selftest(&kernel, &FakeKernel::default(), &["-d", "nothing0"]);
        let error = error.err().unwrap();
        assert!(matches!(error, Error::NoMatch), "{error}");
        let query = kernel.queries.borrow()[0];
        assert_eq!(get_string(&query.domain_name), "nothing0");
        assert_eq!(get_string(&query.node), "");
    }

    #[test]
    fn a_machine_without_devices_is_reported() {
        let error = selftest(&FakeKernel::with_offers(0), &FakeKernel::default(), &[])
            .err()
            .unwrap();
        assert!(matches!(error, Error::NoDevice), "{error}");
    }
}
