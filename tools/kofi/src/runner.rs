// SPDX-License-Identifier: GPL-2.0

//! Runs tests in the kernel, from start to end.

use crate::{
    abi::{
        match_all_query,
        set_string,
        Query,
        Test,
        TestKind,
        TestRefusal,
        TestState,
        TextType,
        Watch,
        KOFI_TEST_VERBS, //
    },
    error::Error,
    kernel::Kernel,
    latency::BUCKETS, //
};
use signal_hook::{
    consts::{
        SIGINT,
        SIGTERM, //
    },
    flag,
};
use std::sync::{
    atomic::{
        AtomicBool,
        Ordering, //
    },
    Arc,
};

/// Exit code that a shell expects of a program that ctrl-c ended.
pub const INTERRUPTED: u8 = 130;

/// Longest wait in ms of each request to watch a test that is starting: the kernel ends the wait
/// only when a test is over, not when it begins to run.
const START_POLL_MSEC: u32 = 20;

/// Port and domain of a test server.
#[derive(clap::Args, Clone)]
pub struct ServerOptions {
    /// Port of the server; the next port is for raw verbs
    #[arg(
        short,
        long,
        default_value_t = 7471,
        value_parser = clap::value_parser!(u16).range(1..i64::from(u16::MAX))
    )]
    port: u16,

    /// Only on this domain, which has the name of the RDMA device
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,
}

impl ServerOptions {
    /// Builds a test without a length and limits. `address` is that of the server.
    pub fn build_test(&self, kind: TestKind, address: &str) -> Result<Test, Error> {
        let mut test = Test {
            kind: kind.0,
            ..Test::default()
        };
        let domain = self.domain.as_deref().unwrap_or_default();
        set_string(&mut test.node, address, "ADDRESS")?;
        set_string(&mut test.service, &self.port.to_string(), "--port")?;
        set_string(&mut test.domain_name, domain, "--domain")?;
        Ok(test)
    }

    /// Returns the same test over raw verbs, with the server on the next port.
    pub fn verbs_test(&self, test: &Test) -> Result<Test, Error> {
        let mut test = Test {
            flags: test.flags | KOFI_TEST_VERBS,
            ..*test
        };
        let port = self.verbs_server().port.to_string();
        set_string(&mut test.service, &port, "--port")?;
        Ok(test)
    }

    /// Returns the options of the raw verbs server.
    pub fn verbs_server(&self) -> Self {
        Self {
            port: self.port.saturating_add(1),
            domain: self.domain.clone(),
        }
    }

    /// Returns the options with the same port on a domain.
    pub fn with_domain(&self, domain: &str) -> Self {
        Self {
            port: self.port,
            domain: Some(domain.to_string()),
        }
    }

    /// Returns a query for all offers on the domain, or on any domain if the options have none.
    pub fn domain_query(&self) -> Result<Query, Error> {
        let test = self.build_test(TestKind::KOFI_TEST_SERVER, "")?;
        Ok(Query {
            domain_name: test.domain_name,
            ..match_all_query()
        })
    }

    /// Returns a query for the offers that reach an address.
    pub fn path_query(&self, address: &str) -> Result<Query, Error> {
        let test = self.build_test(TestKind::KOFI_TEST_PINGPONG, address)?;
        Ok(Query {
            node: test.node,
            service: test.service,
            ..self.domain_query()?
        })
    }

    /// Formats the address and port of the server. An empty address stands for any address.
    pub fn format_address(&self, address: &str) -> String {
        let port = self.port;
        match address {
            "" => format!("*:{port}"),
            address if address.contains(':') => format!("[{address}]:{port}"),
            address => format!("{address}:{port}"),
        }
    }
}

/// Output and result of a command.
pub struct Report {
    /// Text to print, even if the command failed.
    pub text: String,
    pub result: Result<(), Error>,
}

/// Final state of a test.
pub struct TestRun {
    pub watch: Watch,
    pub buckets: Vec<u64>,
    /// Result: the error of the test, or [`Error::Interrupted`] if the user stopped it.
    pub result: Result<(), Error>,
}

/// Runs tests one after another.
#[derive(Clone, Copy)]
pub struct Runner<'a> {
    pub kernel: &'a dyn Kernel,
    /// Flag that requests the end of the test.
    pub stop: &'a AtomicBool,
    /// Draw a progress bar if the output is a terminal.
    pub show_progress: bool,
}

impl Runner<'_> {
    /// Runs a test until it is over or the stop flag is set. Error messages start with `name`.
    /// `on_update` is called for each change that is seen, and at least every `msec`.
    pub fn run(
        &self,
        name: &str,
        test: &Test,
        msec: u32,
        mut on_update: impl FnMut(&Watch) -> Result<(), Error>,
    ) -> Result<TestRun, Error> {
        self.kernel.start(test)?;
        let mut state = TestState::KOFI_TEST_STARTING;
        while state != TestState::KOFI_TEST_OVER && !self.is_stopped() {
            let timeout_msec = match state {
                TestState::KOFI_TEST_STARTING => msec.min(START_POLL_MSEC),
                _ => msec,
            };
            // A signal that arrives before this request does not interrupt it: the flag is seen
            // afterwards.
            if let Some(watch) = self.kernel.watch(timeout_msec, &mut [])? {
                on_update(&watch)?;
                state = TestState(watch.state);
            }
        }
        let stopped = state != TestState::KOFI_TEST_OVER;
        if stopped {
            self.kernel.stop()?;
        }
        let mut buckets = vec![0; BUCKETS];
        let watch = loop {
            if let Some(watch) = self.kernel.watch(0, &mut buckets)? {
                break watch;
            }
        };
        let result = match watch.error {
            0 if stopped => Err(Error::Interrupted),
            _ => test_result(self.kernel, name, &watch),
        };
        Ok(TestRun {
            watch,
            buckets,
            result,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Returns the result of a test that is over.
fn test_result(kernel: &dyn Kernel, test: &str, watch: &Watch) -> Result<(), Error> {
    if watch.error == 0 {
        return Ok(());
    }
    let number = watch.error.unsigned_abs().into();
    let mut reason = kernel.text(TextType::KOFI_TEXT_ERROR, number)?;
    if let Some(detail) = refusal_reason(TestRefusal(watch.refusal)) {
        reason.push_str(": ");
        reason.push_str(detail);
    }
    Err(Error::TestFailed {
        test: test.to_string(),
        reason,
    })
}

/// Returns the reason of the server's refusal, if the server gave one that this program knows.
fn refusal_reason(refusal: TestRefusal) -> Option<&'static str> {
    match refusal {
        TestRefusal::KOFI_TEST_REFUSAL_FULL => Some(
            "the server has as many clients, or buffers for them, as it allows; \
             try again when one of them has left",
        ),
        TestRefusal::KOFI_TEST_REFUSAL_UNKNOWN => {
            Some("the server does not know the request; use the same release on both machines")
        }
        _ => None,
    }
}

/// A server that runs in parallel to other tests, on a device file of its own.
pub struct BackgroundServer<'a>(&'a dyn Kernel);

impl<'a> BackgroundServer<'a> {
    /// Starts the server and waits until it runs. Error messages start with `name`.
    pub fn start(kernel: &'a dyn Kernel, name: &str, test: &Test) -> Result<Self, Error> {
        kernel.start(test)?;
        loop {
            let Some(watch) = kernel.watch(START_POLL_MSEC, &mut [])? else {
                continue;
            };
            match TestState(watch.state) {
                TestState::KOFI_TEST_STARTING => {}
                TestState::KOFI_TEST_RUNNING => return Ok(Self(kernel)),
                _ => {
                    test_result(kernel, name, &watch)?;
                    return Err(Error::Interrupted);
                }
            }
        }
    }

    /// Stops the server and returns its final state.
    pub fn stop(self) -> Result<Watch, Error> {
        self.0.stop()?;
        loop {
            if let Some(watch) = self.0.watch(0, &mut [])? {
                return Ok(watch);
            }
        }
    }
}

/// Returns an error if messages were damaged. Damage takes precedence over an interrupt, but not
/// over other errors.
pub fn check_damage(damaged: u64, result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Ok(()) | Err(Error::Interrupted) if damaged > 0 => Err(Error::Damaged { count: damaged }),
        result => result,
    }
}

/// Returns a flag that ctrl-c or SIGTERM sets. A second signal ends the program at once, and with
/// it the test.
pub fn register_stop_flag() -> Result<Arc<AtomicBool>, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the handler that ends the program must see the flag that the previous
        // signal has set.
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(Error::SignalHandler)?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::get_string,
        fake::FakeKernel, //
    };

    #[test]
    fn verbs_tests_use_the_next_port() {
        let test = OPTIONS.verbs_test(&pingpong()).unwrap();
        assert_eq!(test.flags, KOFI_TEST_VERBS);
        assert_eq!(get_string(&test.service), "7472");
        assert_eq!(get_string(&test.node), "10.0.0.1");
    }

    #[test]
    fn a_background_server_runs_until_it_is_stopped() {
        let kernel = FakeKernel::default();
        let test = OPTIONS.build_test(TestKind::KOFI_TEST_SERVER, "").unwrap();
        let server = BackgroundServer::start(&kernel, "server", &test).unwrap();
        assert_eq!(kernel.thread.borrow().stop_count, 0);
        assert_eq!(server.stop().unwrap().clients, 2);
        assert_eq!(kernel.thread.borrow().stop_count, 1);
    }

    #[test]
    fn a_background_server_reports_a_start_error() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().error = 98;
        kernel.thread.borrow_mut().fails_at_start = true;
        let test = OPTIONS.build_test(TestKind::KOFI_TEST_SERVER, "").unwrap();
        let error = BackgroundServer::start(&kernel, "server", &test)
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "server: Address already in use");
    }

    const OPTIONS: ServerOptions = ServerOptions {
        port: 7471,
        domain: None,
    };

    fn pingpong() -> Test {
        let test = OPTIONS.build_test(TestKind::KOFI_TEST_PINGPONG, "10.0.0.1");
        Test {
            length: 64,
            count: 1000,
            ..test.unwrap()
        }
    }

    fn run(kernel: &FakeKernel) -> (TestRun, Vec<TestState>) {
        let mut seen = Vec::new();
        let run = kernel.runner().run("pingpong", &pingpong(), 100, |watch| {
            seen.push(TestState(watch.state));
            Ok(())
        });
        (run.unwrap(), seen)
    }

    #[test]
    fn a_test_is_watched_until_it_is_over() {
        let kernel = FakeKernel::default();
        let (run, seen) = run(&kernel);
        run.result.unwrap();
        assert_eq!(run.watch.messages, 1000);
        assert_eq!(run.buckets.iter().sum::<u64>(), 1000);
        assert_eq!(
            seen,
            [
                TestState::KOFI_TEST_STARTING,
                TestState::KOFI_TEST_RUNNING,
                TestState::KOFI_TEST_OVER,
            ]
        );
        assert_eq!(kernel.thread.borrow().stop_count, 0);
    }

    #[test]
    fn a_starting_test_is_watched_at_short_intervals() {
        let kernel = FakeKernel::default();
        run(&kernel);
        // The first two requests are made before the test is known to run, the last one reads the
        // histogram.
        assert_eq!(kernel.thread.borrow().watch_msecs, [20, 20, 100, 0]);
    }

    #[test]
    fn ctrl_c_stops_the_test_and_keeps_its_results() {
        let kernel = FakeKernel::default();
        kernel.interrupt_at.set(Some(2));
        let (run, _) = run(&kernel);
        assert!(matches!(run.result, Err(Error::Interrupted)));
        assert_eq!(run.watch.messages, 500);
        assert_eq!(run.buckets.iter().sum::<u64>(), 500);
        assert_eq!(kernel.thread.borrow().stop_count, 1);
    }

    #[test]
    fn an_unrelated_signal_does_not_end_the_test() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().signals = 2;
        run(&kernel).0.result.unwrap();
    }

    #[test]
    fn a_test_error_has_the_text_of_the_kernel() {
        for error in [111, -111] {
            let kernel = FakeKernel::default();
            kernel.thread.borrow_mut().error = error;
            let error = run(&kernel).0.result.unwrap_err().to_string();
            assert_eq!(error, "pingpong: Connection refused");
        }
    }

    #[test]
    fn a_refusal_is_reported_with_its_reason() {
        let full = TestRefusal::KOFI_TEST_REFUSAL_FULL;
        for (refusal, reason) in [
            (TestRefusal::KOFI_TEST_REFUSAL_NONE, "refused"),
            (full, "refused: the server has as many clients"),
            (
                TestRefusal::KOFI_TEST_REFUSAL_UNKNOWN,
                "refused: the server does not know",
            ),
            // A reason of a newer kernel is ignored.
            (TestRefusal(99), "refused"),
        ] {
            let kernel = FakeKernel::default();
            kernel.thread.borrow_mut().error = 111;
            kernel.thread.borrow_mut().refusal = refusal.0;
            let error = run(&kernel).0.result.unwrap_err().to_string();
            let start = format!("pingpong: Connection {reason}");
            assert!(error.starts_with(&start), "{error}");
            assert_eq!(error.len() > start.len(), reason.contains(':'), "{error}");
        }
    }

    #[test]
    fn server_options_become_fields_of_the_test() {
        let options = ServerOptions {
            port: 80,
            domain: Some("rxe0".to_string()),
        };
        let test = options.build_test(TestKind::KOFI_TEST_SERVER, "").unwrap();
        assert_eq!(get_string(&test.node), "");
        assert_eq!(get_string(&test.service), "80");
        assert_eq!(get_string(&test.domain_name), "rxe0");
        let long = "1".repeat(96);
        let error = options
            .build_test(TestKind::KOFI_TEST_SERVER, &long)
            .unwrap_err();
        assert!(error.to_string().starts_with("ADDRESS: at most 95 bytes"));
    }

    #[test]
    fn an_ipv6_address_is_formatted_in_brackets() {
        assert_eq!(OPTIONS.format_address("10.0.0.1"), "10.0.0.1:7471");
        assert_eq!(
            OPTIONS.format_address("fe80::1%eth0"),
            "[fe80::1%eth0]:7471"
        );
        assert_eq!(OPTIONS.format_address(""), "*:7471");
    }
}
