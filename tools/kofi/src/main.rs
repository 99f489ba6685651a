// SPDX-License-Identifier: GPL-2.0

//! `kofi`: command line tool for the fabric interfaces of the kernel. Lists devices and open
//! objects, and measures performance between two kernels.

mod abi;
mod atomic;
mod av;
mod bw;
mod client;
mod compare;
mod device;
mod error;
#[cfg(test)]
mod fake;
mod histogram;
mod info;
mod json;
mod kernel;
mod latency;
mod latency_report;
mod ls;
mod man;
mod names;
mod object_tree;
mod offer_tree;
mod pingpong;
mod progress;
mod runner;
mod selftest;
mod server;
mod size;
mod stat;
mod table;
mod window;

use clap::{
    CommandFactory,
    Parser,
    Subcommand, //
};
use device::Device;
use error::Error;
use kernel::Kernel;
use runner::{
    Report,
    Runner, //
};
use std::{
    io::{
        self,
        Write, //
    },
    path::PathBuf,
    process::ExitCode, //
};

/// Inspect and measure the fabric interfaces of the kernel
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Device file of the kernel module
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "KOFI_DEVICE",
        default_value = "/dev/kofi"
    )]
    device: PathBuf,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the interfaces that each device offers, best first
    Info(Box<info::Args>),
    /// Serve the tests of other machines until ctrl-c
    Server(server::Args),
    /// Measure the latency of messages; default: 1000 of them
    Pingpong(pingpong::Args),
    /// Measure bandwidth; default: for 3 seconds
    Bw(bw::Args),
    /// Measure the time of atomic operations; default: 1000 of them
    Atomic(atomic::Args),
    /// Run the same tests over raw verbs and compare
    Compare(compare::Args),
    /// List the open objects and their owners
    Ls(ls::Args),
    /// List the addresses in an address vector
    Av(av::Args),
    /// Show the activity of endpoints and completion queues per second, until ctrl-c
    Stat(stat::Args),
    /// Test each device of this machine against itself
    Selftest(selftest::Args),
    /// Show the versions of this program and of the kernel's interfaces
    Version,
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Print or write manual pages
    Man(man::Args),
}

fn main() -> ExitCode {
    match run(&Cli::parse(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it, which is not an error.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // The user caused the interrupt and needs no message.
        Err(Error::Interrupted) => ExitCode::from(runner::INTERRUPTED),
        Err(error) => {
            eprintln!("kofi: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli, out: &mut dyn Write) -> Result<(), Error> {
    match &cli.command {
        Command::Info(args) => {
            let device = Device::open(&cli.device)?;
            writeln!(out, "{}", info::run(&device, args, terminal_width())?)?;
        }
        Command::Server(args) => run_tests(cli, out, |runner, out| {
            let verbs_device = Device::open(&cli.device)?;
            // With --json, standard output has nothing but the JSON object.
            if args.json {
                server::run(runner, &verbs_device, args, &mut io::stderr())
            } else {
                server::run(runner, &verbs_device, args, out)
            }
        })?,
        Command::Pingpong(args) => {
            run_tests(cli, out, |runner, _| {
                pingpong::run(runner, args, terminal_width())
            })?;
        }
        Command::Atomic(args) => {
            run_tests(cli, out, |runner, _| {
                atomic::run(runner, args, terminal_width())
            })?;
        }
        Command::Bw(args) => run_tests(cli, out, |runner, _| bw::run(runner, args))?,
        Command::Compare(args) => run_tests(cli, out, |runner, _| compare::run(runner, args))?,
        Command::Ls(args) => {
            let device = Device::open(&cli.device)?;
            writeln!(out, "{}", ls::run(&device, args)?)?;
        }
        Command::Av(args) => {
            let device = Device::open(&cli.device)?;
            writeln!(out, "{}", av::run(&device, args)?)?;
        }
        Command::Stat(args) => {
            let device = Device::open(&cli.device)?;
            stat::run(
                &device,
                args,
                &*runner::register_stop_flag()?,
                terminal_width().is_some(),
                out,
            )?;
        }
        Command::Selftest(args) => run_tests(cli, out, |runner, _| {
            let server_device = Device::open(&cli.device)?;
            selftest::run(runner, &server_device, args, &selftest::local_addresses()?)
        })?,
        Command::Man(args) => man::run(Cli::command(), args, out)?,
        Command::Version => {
            writeln!(out, "program: {}", env!("CARGO_PKG_VERSION"))?;
            let api = Device::open(&cli.device)?.version()?;
            writeln!(out, "kernel: {}", abi::format_version(api))?;
            writeln!(out, "abi: {}", abi::KOFI_ABI_VERSION)?;
        }
        Command::Completions { shell } => {
            // The generator panics if a write fails, so it writes to a buffer.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "kofi", &mut script);
            out.write_all(&script)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Runs a command that runs tests, and prints its report even if the command fails.
fn run_tests(
    cli: &Cli,
    out: &mut dyn Write,
    command: impl FnOnce(Runner<'_>, &mut dyn Write) -> Result<Report, Error>,
) -> Result<(), Error> {
    let device = Device::open(&cli.device)?;
    let runner = Runner {
        kernel: &device,
        stop: &*runner::register_stop_flag()?,
        show_progress: true,
    };
    let report = command(runner, out)?;
    print(report, out)
}

fn print(report: Report, out: &mut dyn Write) -> Result<(), Error> {
    if !report.text.is_empty() {
        writeln!(out, "{}", report.text)?;
    }
    out.flush()?;
    report.result
}

/// Returns the columns of the terminal, or `None` if the output is not a terminal.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(size.ws_col).filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(line: &[&str]) -> (Result<(), Error>, String) {
        let mut out = Vec::new();
        let result = run(&Cli::try_parse_from(line).unwrap(), &mut out);
        (result, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_program_version_needs_no_module() {
        let (result, text) = output(&["kofi", "--device", "/nonexistent", "version"]);
        assert!(matches!(result, Err(Error::NotLoaded { .. })));
        assert_eq!(text, format!("program: {}\n", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_device_option_is_accepted_after_the_command() {
        let (result, _) = output(&["kofi", "info", "--device", "/nonexistent"]);
        assert!(matches!(result, Err(Error::NotLoaded { path }) if path.ends_with("nonexistent")));
    }

    #[test]
    fn the_report_of_a_failed_command_is_printed() {
        let mut out = Vec::new();
        let report = Report {
            text: "some".to_string(),
            result: Err(Error::Interrupted),
        };
        assert!(matches!(print(report, &mut out), Err(Error::Interrupted)));
        assert_eq!(out, b"some\n");
    }

    #[test]
    fn test_commands_need_the_module() {
        for command in ["server", "pingpong", "bw", "atomic", "compare"] {
            let (result, text) = output(&["kofi", "--device", "/nonexistent", command, "::1"]);
            assert!(matches!(result, Err(Error::NotLoaded { .. })), "{command}");
            assert_eq!(text, "");
        }
    }

    #[test]
    fn completions_contain_the_options() {
        let (result, script) = output(&["kofi", "completions", "bash"]);
        result.unwrap();
        assert!(script.contains("--mr-mode"));
    }
}
