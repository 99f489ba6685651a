// SPDX-License-Identifier: GPL-2.0

//! Histograms of latencies, in a terminal and as SVG.

use crate::latency::{
    self,
    Share, //
};
use svg::{
    node::element::{
        Rectangle,
        Text, //
    },
    Document,
    Node, //
};

/// Rows of a histogram, at most.
const ROWS: usize = 20;

/// Columns of a terminal, where there is none.
const WIDTH: u16 = 80;

/// Columns of a bar: no fewer even where the terminal is too narrow, no more where it is wide.
const LEAST: usize = 10;
const MOST: usize = 60;

/// Full and partial blocks, which are as many eighths as their place says.
const BLOCKS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Pixels.
const ROW: u32 = 18;
const BARS: u32 = 180;
const LONGEST: u32 = 440;
const PICTURE: u32 = 720;

/// Neighbouring buckets, as many of them in each row as it takes.
pub struct Chart {
    title: String,
    rows: Vec<Row>,
    share: Share,
}

#[derive(Debug, PartialEq)]
struct Row {
    /// Times in ns; the end is in the next row.
    from: u64,
    to: u64,
    count: u64,
}

impl Chart {
    pub fn new(title: String, buckets: &[u64], share: Share) -> Self {
        let rows = rows(buckets);
        Self { title, rows, share }
    }

    /// The length of a row's bar, where the longest one is `full`. What there is can be seen.
    fn bar(&self, row: &Row, full: u32) -> u32 {
        let most = self.rows.iter().map(|row| row.count).max();
        let most = u128::from(most.unwrap_or_default().max(1));
        let length = u128::from(row.count) * u128::from(full) / most;
        let length = u32::try_from(length).unwrap_or(full);
        length.max(u32::from(row.count > 0))
    }

    /// Lines that fit into `width`, or into that of a usual terminal.
    pub fn lines(&self, width: Option<u16>) -> String {
        let labels: Vec<_> = self.rows.iter().map(|row| row.labels(self.share)).collect();
        let wide = |at: usize| {
            labels
                .iter()
                .map(|label| label[at].len())
                .max()
                .unwrap_or(0)
        };
        let [from, to, count] = [wide(0), wide(1), wide(2)];
        let taken = from + " - ".len() + to + "  ".len() + count + "  ".len();
        let room = usize::from(width.unwrap_or(WIDTH)).saturating_sub(taken);
        let eighths = u32::try_from(room.clamp(LEAST, MOST) * 8).unwrap_or_default();
        let mut lines = vec![self.title.clone()];
        for (row, [a, b, n]) in self.rows.iter().zip(&labels) {
            let bar = blocks(self.bar(row, eighths));
            let line = format!("{a:>from$} - {b:>to$}  {n:>count$}  {bar}");
            lines.push(line.trim_end().to_string());
        }
        lines.join("\n")
    }

    /// Draws it below `top`, and returns where it ends.
    fn draw(&self, picture: &mut Document, top: u32) -> u32 {
        picture.append(text(&self.title, 12, top + ROW).set("font-weight", "bold"));
        let mut y = top + ROW + ROW / 2;
        for row in &self.rows {
            let [from, to, count] = row.labels(self.share);
            let bar = self.bar(row, LONGEST);
            let base = y + ROW - 5;
            let label = text(&format!("{from} - {to}"), BARS - 8, base);
            picture.append(label.set("text-anchor", "end"));
            if bar > 0 {
                let bar = Rectangle::new().set("width", bar).set("height", ROW - 2);
                picture.append(bar.set("x", BARS).set("y", y + 1).set("fill", "#4878a8"));
            }
            picture.append(text(&count, BARS + bar + 6, base));
            y += ROW;
        }
        y
    }
}

impl Row {
    /// Where it begins and ends, and how many there are.
    fn labels(&self, share: Share) -> [String; 3] {
        [
            latency::show(self.from, share),
            latency::show(self.to, share),
            self.count.to_string(),
        ]
    }
}

/// From the first bucket that is not empty to the last one: a row has as few of them as the number of
/// rows allows, but a gap is a row, however wide, so that a few stragglers do not cost precision.
fn rows(buckets: &[u64]) -> Vec<Row> {
    let mut merged = 1;
    loop {
        let rows = rows_of(buckets, merged);
        if rows.len() <= ROWS {
            return rows;
        }
        merged *= 2;
    }
}

fn rows_of(buckets: &[u64], merged: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, counts) in buckets.chunks(merged).enumerate() {
        let (begin, end) = (at * merged, at * merged + counts.len());
        let row = Row {
            from: latency::first(begin),
            to: latency::last(end - 1).saturating_add(1),
            count: counts.iter().sum(),
        };
        match rows.last_mut() {
            None if row.count == 0 => (),
            Some(gap) if gap.count == 0 && row.count == 0 => gap.to = row.to,
            _ => rows.push(row),
        }
    }
    if rows.last().is_some_and(|row| row.count == 0) {
        rows.pop();
    }
    rows
}

fn blocks(eighths: u32) -> String {
    let full = BLOCKS[8].repeat(eighths as usize / 8);
    full + BLOCKS[eighths as usize % 8]
}

fn text(words: &str, x: u32, y: u32) -> Text {
    Text::new(words).set("x", x).set("y", y)
}

/// A picture of them, one below the other, that needs no other file.
pub fn svg(charts: &[Chart]) -> String {
    let mut picture = Document::new()
        .set("font-family", "sans-serif")
        .set("font-size", 12);
    picture.append(
        Rectangle::new()
            .set("width", "100%")
            .set("height", "100%")
            .set("fill", "#ffffff"),
    );
    let mut y = 6;
    for chart in charts {
        y = chart.draw(&mut picture, y) + ROW / 2;
    }
    let picture = picture
        .set("width", PICTURE)
        .set("height", y)
        .set("viewBox", (0, 0, PICTURE, y));
    format!("{picture}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{
        bucket,
        BUCKETS, //
    };

    fn buckets(values: &[(u64, u64)]) -> Vec<u64> {
        let mut buckets = vec![0; BUCKETS];
        for &(value, count) in values {
            buckets[bucket(value)] += count;
        }
        buckets
    }

    fn chart(values: &[(u64, u64)]) -> Chart {
        Chart::new(
            "a <title> & more".to_string(),
            &buckets(values),
            Share::Half,
        )
    }

    /// Round trips of 20 µs and some far longer ones.
    fn usual() -> Chart {
        chart(&[
            (19_000, 3),
            (20_000, 4000),
            (21_000, 1500),
            (25_000, 77),
            (300_000, 1),
        ])
    }

    #[test]
    fn a_histogram_shows_as_bars() {
        assert_eq!(usual().lines(None) + "\n", include_str!("golden/bars.txt"));
    }

    #[test]
    fn a_picture_has_the_same_rows() {
        let charts = [usual(), chart(&[(1000, 1)])];
        assert_eq!(svg(&charts), include_str!("golden/bars.svg"));
    }

    #[test]
    fn there_are_at_most_twenty_rows_and_every_round_trip_is_in_one() {
        for high in 0..BUCKETS {
            for low in [0, 1, 15, high / 2, high].map(|low| low.min(high)) {
                let mut buckets = vec![0; BUCKETS];
                buckets[low] += 1;
                buckets[high] += 2;
                let rows = rows(&buckets);
                assert!(rows.len() <= ROWS, "{low} {high}");
                assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 3);
                assert!(rows.windows(2).all(|pair| pair[0].to == pair[1].from));
                assert!(rows[0].count > 0 && rows[rows.len() - 1].count > 0);
            }
        }
    }

    #[test]
    fn buckets_without_gaps_share_rows_in_powers_of_two() {
        let mut buckets = vec![0; BUCKETS];
        buckets[160..160 + 2 * ROWS].fill(1);
        assert_eq!(rows(&buckets).len(), ROWS);
        buckets[160 + 2 * ROWS] = 1;
        let counts: Vec<_> = rows(&buckets).iter().map(|row| row.count).collect();
        assert_eq!(counts, [4; 10].into_iter().chain([1]).collect::<Vec<_>>());
    }

    #[test]
    fn a_straggler_costs_no_precision() {
        let chart = chart(&[(32, 5), (34, 6), (1 << 20, 1)]);
        let expected = [
            (32, 34, 5),
            (34, 36, 6),
            (36, 1 << 20, 0),
            (1 << 20, 17 << 16, 1),
        ];
        let expected = expected.map(|(from, to, count)| Row { from, to, count });
        assert_eq!(chart.rows, expected);
    }

    #[test]
    fn neighbouring_buckets_have_rows_of_their_own() {
        let chart = chart(&[(32, 5), (34, 6)]);
        let expected = [(32, 34, 5), (34, 36, 6)];
        let expected = expected.map(|(from, to, count)| Row { from, to, count });
        assert_eq!(chart.rows, expected);
    }

    #[test]
    fn a_single_round_trip_among_many_can_be_seen() {
        let lines = chart(&[(20_000, 1_000_000), (40_000, 1)]).lines(None);
        assert!(lines.ends_with("1  ▏"), "{lines}");
    }

    #[test]
    fn the_longest_bar_fits_into_the_terminal() {
        for width in [40, 60, 80, 100] {
            let lines = usual().lines(Some(width));
            let longest = lines.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width.into()), "{width}: {lines}");
            assert!(
                width > 80 || longest == Some(width.into()),
                "{width}: {lines}"
            );
        }
    }

    #[test]
    fn bars_are_precise_to_an_eighth() {
        assert_eq!(blocks(0), "");
        assert_eq!(blocks(8), "█");
        assert_eq!(blocks(19), "██▍");
    }

    #[test]
    fn without_round_trips_there_are_no_rows() {
        assert_eq!(chart(&[]).lines(None), "a <title> & more");
    }
}
