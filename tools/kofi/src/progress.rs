// SPDX-License-Identifier: GPL-2.0

//! The bar that shows how far a test has come.

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

pub struct Bar<'a> {
    test: &'a Test,
    bar: ProgressBar,
}

impl<'a> Bar<'a> {
    /// One that is drawn on a terminal only.
    pub fn new(test: &'a Test, is_drawn: bool) -> Self {
        let bar = if is_drawn {
            ProgressBar::new(length(test))
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(size::show(test.length));
        Self { test, bar }
    }

    pub fn show(&self, watch: &Watch) {
        self.bar.set_message(message(watch));
        self.bar.set_position(position(self.test, watch));
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Messages, or milliseconds if their number has no bound.
fn length(test: &Test) -> u64 {
    match test.count {
        0 => test.msec.into(),
        count => count,
    }
}

fn position(test: &Test, watch: &Watch) -> u64 {
    let done = match test.count {
        0 => watch.nsec / 1_000_000,
        _ => watch.messages,
    };
    done.min(length(test))
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
    fn the_bar_counts_messages_or_time() {
        let counted = Test {
            count: 1000,
            ..Test::default()
        };
        let timed = Test {
            msec: 3000,
            ..Test::default()
        };
        let half = watch(500, 1_500_000_000);
        assert_eq!((length(&counted), position(&counted, &half)), (1000, 500));
        assert_eq!((length(&timed), position(&timed, &half)), (3000, 1500));
    }

    #[test]
    fn the_bar_does_not_overflow() {
        let timed = Test {
            msec: 3000,
            ..Test::default()
        };
        assert_eq!(position(&timed, &watch(1, 3_100_000_000)), 3000);
    }

    #[test]
    fn what_has_no_messages_yet_is_connecting() {
        assert_eq!(message(&Watch::default()), "connecting");
        assert_eq!(message(&watch(7, 1)), "7 messages");
    }
}
