// SPDX-License-Identifier: GPL-2.0

//! `kofi`: what the fabric interfaces of the kernel offer, at the command line.

mod abi;
mod device;
mod error;
#[cfg(test)]
mod fake;
mod info;
mod kernel;
mod names;
mod table;
mod tree;

use clap::{
    CommandFactory,
    Parser,
    Subcommand, //
};
use device::Device;
use error::Error;
use kernel::Kernel;
use std::{
    io::{
        self,
        Write, //
    },
    path::PathBuf,
    process::ExitCode, //
};

/// Fabric interfaces of the kernel
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The device of the kernel's module
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
    /// What can be opened, best first
    Info(Box<info::Args>),
    /// Versions of this program and of the kernel's interfaces
    Version,
    /// What makes a shell complete the commands
    Completions { shell: clap_complete::Shell },
}

fn main() -> ExitCode {
    match run(&Cli::parse(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads the output has seen enough.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
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
            writeln!(out, "{}", info::run(&device, args, width())?)?;
        }
        Command::Version => {
            writeln!(out, "program: {}", env!("CARGO_PKG_VERSION"))?;
            let api = Device::open(&cli.device)?.version()?;
            writeln!(out, "kernel: {}", abi::version(api))?;
            writeln!(out, "abi: {}", abi::KOFI_ABI_VERSION)?;
        }
        Command::Completions { shell } => {
            // Written in one go: the generator panics where it cannot write.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "kofi", &mut script);
            out.write_all(&script)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Columns of the terminal, if the output goes to one.
fn width() -> Option<u16> {
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
    fn the_version_of_the_program_needs_no_module() {
        let (result, text) = output(&["kofi", "--device", "/nonexistent", "version"]);
        assert!(matches!(result, Err(Error::NotLoaded { .. })));
        assert_eq!(text, format!("program: {}\n", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_device_can_be_named_after_the_command() {
        let (result, _) = output(&["kofi", "info", "--device", "/nonexistent"]);
        assert!(matches!(result, Err(Error::NotLoaded { path }) if path.ends_with("nonexistent")));
    }

    #[test]
    fn completions_know_the_commands() {
        let (result, script) = output(&["kofi", "completions", "bash"]);
        result.unwrap();
        assert!(script.contains("--mr-mode"));
    }
}
