// SPDX-License-Identifier: GPL-2.0

//! `kofi server`: what the tests of other machines talk to.

use crate::{
    abi::{
        TestKind,
        TestState,
        Watch, //
    },
    error::Error,
    run::{
        self,
        Place,
        Report,
        Runner, //
    },
};
use serde::Serialize;
use std::io::Write;

/// How long it serves without being looked at, in ms.
const LOOK: u32 = 1000;

#[derive(clap::Args)]
pub struct Args {
    /// Address of this machine, any if there is none
    address: Option<String>,

    #[command(flatten)]
    place: Place,

    /// What has been served, at the end, as a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Object {
    clients: u32,
    messages: u64,
    bytes: u64,
    damaged: u64,
}

/// Serves until ctrl-c, which is no error. `out` is told when it begins.
pub fn run(runner: Runner<'_>, args: &Args, out: &mut dyn Write) -> Result<Report, Error> {
    let address = args.address.as_deref().unwrap_or_default();
    let place = args.place.show(address);
    let test = args.place.test(TestKind::KOFI_TEST_SERVER, address)?;
    let mut is_serving = false;
    let served = runner.run(&format!("server at {place}"), &test, LOOK, |watch| {
        if !is_serving && TestState(watch.state) == TestState::KOFI_TEST_RUNNING {
            is_serving = true;
            writeln!(out, "serving at {place}, stop with ctrl-c")?;
            out.flush()?;
        }
        Ok(())
    })?;
    let summary = match is_serving {
        true if args.json => json(&served.watch)?,
        true => line(&served.watch),
        false => String::new(),
    };
    let end = match run::check(served.watch.damaged, served.end) {
        Err(Error::Interrupted) => Ok(()),
        end => end,
    };
    Ok(Report { text: summary, end })
}

fn line(watch: &Watch) -> String {
    format!(
        "{} clients, {} messages, {} bytes, {} damaged",
        watch.clients, watch.messages, watch.bytes, watch.damaged
    )
}

fn json(watch: &Watch) -> Result<String, Error> {
    let object = Object {
        clients: watch.clients,
        messages: watch.messages,
        bytes: watch.bytes,
        damaged: watch.damaged,
    };
    serde_json::to_string_pretty(&object).map_err(|error| Error::Output(error.into()))
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

    fn serve(kernel: &Fake, line: &[&str]) -> (String, Report) {
        let line = ["server"].iter().chain(line);
        let args = Line::try_parse_from(line).unwrap().args;
        let mut out = Vec::new();
        let report = run(kernel.runner(), &args, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), report)
    }

    /// A kernel whose server meets ctrl-c when it has served for a while.
    fn stopped() -> Fake {
        let kernel = Fake::default();
        kernel.interrupt_at.set(Some(4));
        kernel
    }

    #[test]
    fn it_serves_until_ctrl_c_and_says_what() {
        let kernel = stopped();
        let (out, report) = serve(&kernel, &["10.0.0.1", "-p", "80", "-d", "rxe0"]);
        assert_eq!(out, "serving at 10.0.0.1:80, stop with ctrl-c\n");
        assert_eq!(
            report.text,
            "2 clients, 1000 messages, 64000 bytes, 0 damaged"
        );
        report.end.unwrap();
        let thread = kernel.thread.borrow();
        assert_eq!(thread.stops, 1);
        assert_eq!(string(&thread.started[0].node), "10.0.0.1");
        assert_eq!(string(&thread.started[0].domain_name), "rxe0");
        // While it starts, then until ctrl-c, then for the end.
        assert_eq!(thread.waits, [20, 20, 1000, 1000, 0]);
    }

    #[test]
    fn without_an_address_it_serves_at_any() {
        let (out, _) = serve(&stopped(), &[]);
        assert_eq!(out, "serving at *:7471, stop with ctrl-c\n");
    }

    #[test]
    fn a_server_that_cannot_begin_says_why_and_nothing_else() {
        let kernel = Fake::default();
        kernel.thread.borrow_mut().error = 98;
        kernel.thread.borrow_mut().is_unable = true;
        let (out, report) = serve(&kernel, &[]);
        assert_eq!((out.as_str(), report.text.as_str()), ("", ""));
        let error = report.end.unwrap_err().to_string();
        assert_eq!(error, "server at *:7471: Address already in use");
    }

    #[test]
    fn a_server_that_fails_later_says_what_it_has_served() {
        let kernel = Fake::default();
        kernel.thread.borrow_mut().error = 111;
        let (_, report) = serve(&kernel, &[]);
        assert!(report.text.starts_with("2 clients, 500 messages"));
        assert!(matches!(report.end, Err(Error::Failed { .. })));
    }

    #[test]
    fn damaged_messages_are_an_error_even_after_ctrl_c() {
        let kernel = stopped();
        kernel.thread.borrow_mut().damaged = 3;
        let (_, report) = serve(&kernel, &[]);
        assert!(report.text.ends_with("3 damaged"));
        assert!(matches!(report.end, Err(Error::Damaged { count: 3 })));
    }

    #[test]
    fn json_is_an_object() {
        let (_, report) = serve(&stopped(), &["--json"]);
        let object: serde_json::Value = serde_json::from_str(&report.text).unwrap();
        let expected = serde_json::json!({
            "clients": 2, "messages": 1000, "bytes": 64000, "damaged": 0
        });
        assert_eq!(object, expected);
    }
}
