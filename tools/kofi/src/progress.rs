// SPDX-License-Identifier: GPL-2.0

//! Progress bar of a running test.

use crate::{
    abi::{
        Test,
        TestState,
        Watch, //
    },
    size,
};
use indicatif::{
    ProgressBar,
    ProgressStyle, //
};

const STYLE: &str = "{prefix:>6} [{bar:40}] {percent:>3} % {msg}";

/// Progress bar of a test, which is removed from the terminal when it is dropped.
pub struct TestProgress<'a> {
    test: &'a Test,
    bar: ProgressBar,
}

impl<'a> TestProgress<'a> {
    /// Creates the bar of `test`. A visible bar is drawn only if the output is a terminal.
    pub fn new(test: &'a Test, visible: bool) -> Self {
        let bar = if visible {
            ProgressBar::new(total(test))
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(size::format(test.length));
        Self { test, bar }
    }

    /// Shows the progress that the kernel reports in `watch`.
    pub fn update(&self, watch: &Watch) {
        self.bar.set_message(message(watch));
        self.bar.set_position(done(self.test, watch));
    }
}

impl Drop for TestProgress<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the total number of messages, or of milliseconds if the number of messages has no limit.
fn total(test: &Test) -> u64 {
    match test.count {
        0 => test.msec.into(),
        count => count,
    }
}

/// Returns the number of messages or of milliseconds done, at most [`total`].
fn done(test: &Test, watch: &Watch) -> u64 {
    let progress = match test.count {
        0 => watch.nsec / 1_000_000,
        _ => watch.messages,
    };
    progress.min(total(test))
}

fn message(watch: &Watch) -> String {
    match TestState(watch.state) {
        TestState::KOFI_TEST_STARTING => "connecting".to_string(),
        _ => format!("{} messages", watch.messages),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(messages: u64, nsec: u64) -> Watch {
        Watch {
            state: TestState::KOFI_TEST_RUNNING.0,
            messages,
            nsec,
            ..Watch::default()
        }
    }

    #[test]
    fn the_bar_measures_messages_or_time() {
        let counted = Test {
            count: 1000,
            ..Test::default()
        };
        let timed = Test {
            msec: 3000,
            ..Test::default()
        };
        let half = watch(500, 1_500_000_000);
        assert_eq!((total(&counted), done(&counted, &half)), (1000, 500));
        assert_eq!((total(&timed), done(&timed, &half)), (3000, 1500));
    }

    #[test]
    fn the_bar_does_not_exceed_its_total() {
        let timed = Test {
            msec: 3000,
            ..Test::default()
        };
        assert_eq!(done(&timed, &watch(1, 3_100_000_000)), 3000);
    }

    #[test]
    fn a_starting_test_is_shown_as_connecting() {
        assert_eq!(message(&Watch::default()), "connecting");
        assert_eq!(message(&watch(7, 1)), "7 messages");
    }
}
