// SPDX-License-Identifier: GPL-2.0

//! `kofi server`: serves the tests of other machines.

use crate::{
    abi::{
        TestKind,
        TestState,
        Watch, //
    },
    error::Error,
    json,
    kernel::Kernel,
    runner::{
        self,
        BackgroundServer,
        Report,
        Runner,
        ServerOptions, //
    },
};
use serde::Serialize;
use std::io::Write;

/// Longest time in ms between two requests to watch the server.
const WATCH_MSEC: u32 = 1000;

/// Help text below the options.
const LIMITS_HELP: &str = "\
Serves up to 16 clients at once, each in a thread of its own, and as many over raw verbs; or fewer, \
if the buffers for them reach 512 MiB. Further clients are refused, and get the reason.";

#[derive(clap::Args)]
#[command(after_help = LIMITS_HELP)]
pub struct Args {
    /// Local address; default: any address
    address: Option<String>,

    #[command(flatten)]
    server: ServerOptions,

    /// Print the totals at the end as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct ServerSummary {
    clients: u32,
    messages: u64,
    bytes: u64,
    damaged: u64,
    turned_away: u32,
}

/// Serves until ctrl-c, which is not an error. Writes a line to `out` when the server runs. A raw
/// verbs server runs on `verbs_device`; its totals are added.
pub fn run(
    runner: Runner<'_>,
    verbs_device: &dyn Kernel,
    args: &Args,
    out: &mut dyn Write,
) -> Result<Report, Error> {
    let address = args.address.as_deref().unwrap_or_default();
    let shown_address = args.server.format_address(address);
    let test = args
        .server
        .build_test(TestKind::KOFI_TEST_SERVER, address)?;
    let (mut serving, mut verbs_server) = (false, None);
    let run = runner.run(
        &format!("server at {shown_address}"),
        &test,
        WATCH_MSEC,
        |watch| {
            if !serving && TestState(watch.state) == TestState::KOFI_TEST_RUNNING {
                serving = true;
                verbs_server = start_verbs_server(verbs_device, args, address, out)?;
                writeln!(out, "serving at {shown_address}, stop with ctrl-c")?;
                out.flush()?;
            }
            Ok(())
        },
    )?;
    let mut watch = run.watch;
    if let Some(other) = verbs_server.map(BackgroundServer::stop).transpose()? {
        watch.clients += other.clients;
        watch.messages += other.messages;
        watch.bytes += other.bytes;
        watch.damaged += other.damaged;
        watch.turned_away += other.turned_away;
    }
    let summary = if !serving {
        String::new()
    } else if args.json {
        json(&watch)?
    } else {
        format_summary(&watch)
    };
    let result = match runner::check_damage(watch.damaged, run.result) {
        Err(Error::Interrupted) => Ok(()),
        result => result,
    };
    Ok(Report {
        text: summary,
        result,
    })
}

/// Starts the raw verbs server. If the server fails to start, reports the error on `out` and
/// returns `None`: all other tests can be served without it.
fn start_verbs_server<'a>(
    kernel: &'a dyn Kernel,
    args: &Args,
    address: &str,
    out: &mut dyn Write,
) -> Result<Option<BackgroundServer<'a>>, Error> {
    let options = args.server.verbs_server();
    let name = format!("no raw verbs server at {}", options.format_address(address));
    let test = args
        .server
        .build_test(TestKind::KOFI_TEST_SERVER, address)?;
    match BackgroundServer::start(kernel, &name, &args.server.verbs_test(&test)?) {
        Ok(server) => Ok(Some(server)),
        Err(error @ Error::TestFailed { .. }) => {
            writeln!(out, "{error}")?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn format_summary(watch: &Watch) -> String {
    let turned_away = match watch.turned_away {
        0 => String::new(),
        count => format!(", {count} turned away"),
    };
    format!(
        "{} clients, {} messages, {} bytes, {} damaged{turned_away}",
        watch.clients, watch.messages, watch.bytes, watch.damaged
    )
}

fn json(watch: &Watch) -> Result<String, Error> {
    let summary = ServerSummary {
        clients: watch.clients,
        messages: watch.messages,
        bytes: watch.bytes,
        damaged: watch.damaged,
        turned_away: watch.turned_away,
    };
    json::pretty(&summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::{
            get_string,
            KOFI_TEST_MAX_CLIENTS,
            KOFI_TEST_MAX_SERVED, //
        },
        fake::FakeKernel, //
    };
    use clap::{
        CommandFactory,
        Parser, //
    };

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn serve(kernel: &FakeKernel, line: &[&str]) -> (String, Report) {
        let line = ["server"].iter().chain(line);
        let args = TestCli::try_parse_from(line).unwrap().args;
        let mut out = Vec::new();
        let verbs_device = FakeKernel::default();
        let report = run(kernel.runner(), &verbs_device, &args, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), report)
    }

    /// Returns a kernel whose server is interrupted after it has served for a while.
    fn stopped() -> FakeKernel {
        let kernel = FakeKernel::default();
        kernel.interrupt_at.set(Some(4));
        kernel
    }

    #[test]
    fn the_server_runs_until_ctrl_c_and_prints_totals() {
        let kernel = stopped();
        let (out, report) = serve(&kernel, &["10.0.0.1", "-p", "80", "-d", "rxe0"]);
        assert_eq!(out, "serving at 10.0.0.1:80, stop with ctrl-c\n");
        assert_eq!(
            report.text,
            "4 clients, 2000 messages, 128000 bytes, 0 damaged"
        );
        report.result.unwrap();
        let thread = kernel.thread.borrow();
        assert_eq!(thread.stop_count, 1);
        assert_eq!(get_string(&thread.started[0].node), "10.0.0.1");
        assert_eq!(get_string(&thread.started[0].domain_name), "rxe0");
        // Two requests while the server starts, two until ctrl-c, and one for the totals.
        assert_eq!(thread.watch_msecs, [20, 20, 1000, 1000, 0]);
    }

    #[test]
    fn without_an_address_the_server_listens_on_any() {
        let (out, _) = serve(&stopped(), &[]);
        assert_eq!(out, "serving at *:7471, stop with ctrl-c\n");
    }

    #[test]
    fn a_start_error_is_reported_without_totals() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().error = 98;
        kernel.thread.borrow_mut().fails_at_start = true;
        let (out, report) = serve(&kernel, &[]);
        assert_eq!((out.as_str(), report.text.as_str()), ("", ""));
        let error = report.result.unwrap_err().to_string();
        assert_eq!(error, "server at *:7471: Address already in use");
    }

    #[test]
    fn the_server_runs_without_a_verbs_server() {
        let (kernel, verbs_device) = (stopped(), FakeKernel::default());
        verbs_device.thread.borrow_mut().error = 98;
        verbs_device.thread.borrow_mut().fails_at_start = true;
        let args = TestCli::try_parse_from(["server"]).unwrap().args;
        let mut out = Vec::new();
        let report = run(kernel.runner(), &verbs_device, &args, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(
            out,
            "no raw verbs server at *:7472: Address already in use\n\
             serving at *:7471, stop with ctrl-c\n"
        );
        assert!(report.text.starts_with("2 clients"));
        report.result.unwrap();
    }

    #[test]
    fn a_server_error_keeps_the_totals() {
        let kernel = FakeKernel::default();
        kernel.thread.borrow_mut().error = 111;
        let (_, report) = serve(&kernel, &[]);
        assert!(
            report.text.starts_with("4 clients, 1500 messages"),
            "{}",
            report.text
        );
        assert!(matches!(report.result, Err(Error::TestFailed { .. })));
    }

    #[test]
    fn damaged_messages_are_an_error_even_after_ctrl_c() {
        let kernel = stopped();
        kernel.thread.borrow_mut().damaged = 3;
        let (_, report) = serve(&kernel, &[]);
        assert!(report.text.ends_with("3 damaged"));
        assert!(matches!(report.result, Err(Error::Damaged { count: 3 })));
    }

    #[test]
    fn refused_clients_are_counted() {
        let kernel = stopped();
        kernel.thread.borrow_mut().turned_away = 2;
        let (_, report) = serve(&kernel, &[]);
        assert!(report.text.ends_with("0 damaged, 2 turned away"));
        report.result.unwrap();
    }

    #[test]
    fn the_help_has_the_limits_of_the_header() {
        let help = TestCli::command().render_help().to_string();
        let clients = format!("up to {KOFI_TEST_MAX_CLIENTS} clients");
        let bytes = format!("{} MiB", KOFI_TEST_MAX_SERVED >> 20);
        assert!(help.contains(&clients) && help.contains(&bytes), "{help}");
    }

    #[test]
    fn json_has_the_totals() {
        let (_, report) = serve(&stopped(), &["--json"]);
        let object: serde_json::Value = serde_json::from_str(&report.text).unwrap();
        let expected = serde_json::json!({
            "clients": 4, "messages": 2000, "bytes": 128_000, "damaged": 0, "turned_away": 0
        });
        assert_eq!(object, expected);
    }
}
