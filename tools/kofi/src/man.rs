// SPDX-License-Identifier: GPL-2.0

//! `kofi man`: manual pages, generated from the help texts.

use crate::error::Error;
use std::{
    io::Write,
    path::PathBuf, //
};

#[derive(clap::Args)]
pub struct Args {
    /// Directory to write the page of each command to; without it, print the page of the program
    dir: Option<PathBuf>,
}

/// Prints the page of the program, or writes all pages to a directory.
pub fn run(command: clap::Command, args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        out.write_all(&page)?;
        return Ok(());
    };
    clap_mangen::generate_to(command, dir).map_err(|error| Error::WriteFailed {
        path: dir.clone(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;
    use std::{
        env,
        fs, //
    };

    #[test]
    fn the_program_page_lists_the_commands() {
        let mut page = Vec::new();
        run(Cli::command(), &Args { dir: None }, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains(".TH kofi 1"), "{page}");
        assert!(page.contains("kofi\\-pingpong(1)"), "{page}");
    }

    #[test]
    fn each_command_has_a_page() {
        let dir = env::temp_dir().join(format!("kofi-man-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let args = Args {
            dir: Some(dir.clone()),
        };
        run(Cli::command(), &args, &mut Vec::new()).unwrap();
        for page in ["kofi.1", "kofi-info.1", "kofi-compare.1", "kofi-selftest.1"] {
            let text = fs::read_to_string(dir.join(page)).unwrap();
            assert!(text.contains(".SH NAME"), "{page}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_missing_directory_is_reported_with_its_path() {
        let args = Args {
            dir: Some("/nonexistent/man".into()),
        };
        let error = run(Cli::command(), &args, &mut Vec::new()).unwrap_err();
        assert!(
            error.to_string().starts_with("/nonexistent/man: "),
            "{error}"
        );
    }
}
