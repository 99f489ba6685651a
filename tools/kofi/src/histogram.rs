// SPDX-License-Identifier: GPL-2.0

//! Latency histograms, as text for a terminal and as SVG.

use crate::latency::{
    self,
    Scale, //
};
use svg::{
    node::element::{
        Rectangle,
        Text, //
    },
    Document,
    Node, //
};

/// Maximum number of rows.
const MAX_ROWS: usize = 20;

/// Columns of the text if the output is not a terminal.
const DEFAULT_WIDTH: u16 = 80;

/// Range of the columns of the longest bar, whatever the width of the terminal.
const MIN_BAR: usize = 10;
const MAX_BAR: usize = 60;

/// Block characters that fill 0 to 8 eighths of a column.
const BLOCKS: [&str; 9] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Layout of the SVG image, in pixels.
const ROW_HEIGHT: u32 = 18;
const BAR_X: u32 = 180;
const SVG_MAX_BAR: u32 = 440;
const SVG_WIDTH: u32 = 720;

/// A histogram whose rows merge neighbouring buckets.
pub struct Histogram {
    title: String,
    rows: Vec<Row>,
    scale: Scale,
}

#[derive(Debug, PartialEq)]
struct Row {
    /// Range of the times in ns; `to` is exclusive.
    from: u64,
    to: u64,
    count: u64,
}

impl Histogram {
    pub fn new(title: String, buckets: &[u64], scale: Scale) -> Self {
        let rows = rows(buckets);
        Self { title, rows, scale }
    }

    /// Returns the length of a row's bar, with `max_length` for the row with the highest count. A
    /// row that is not empty has at least 1.
    fn bar_length(&self, row: &Row, max_length: u32) -> u32 {
        let max = self.rows.iter().map(|row| row.count).max();
        let max = u128::from(max.unwrap_or_default().max(1));
        let length = u128::from(row.count) * u128::from(max_length) / max;
        let length = u32::try_from(length).unwrap_or(max_length);
        length.max(u32::from(row.count > 0))
    }

    /// Formats lines that fit into `width` columns, or into the default width.
    pub fn to_text(&self, width: Option<u16>) -> String {
        let labels: Vec<_> = self.rows.iter().map(|row| row.labels(self.scale)).collect();
        let max_width = |column: usize| {
            labels
                .iter()
                .map(|label| label[column].len())
                .max()
                .unwrap_or(0)
        };
        let [from, to, count] = [max_width(0), max_width(1), max_width(2)];
        let labels_width = from + " - ".len() + to + "  ".len() + count + "  ".len();
        let bar_width = usize::from(width.unwrap_or(DEFAULT_WIDTH)).saturating_sub(labels_width);
        let eighths = u32::try_from(bar_width.clamp(MIN_BAR, MAX_BAR) * 8).unwrap_or_default();
        let mut lines = vec![self.title.clone()];
        for (row, [a, b, n]) in self.rows.iter().zip(&labels) {
            let bar = block_bar(self.bar_length(row, eighths));
            let line = format!("{a:>from$} - {b:>to$}  {n:>count$}  {bar}");
            lines.push(line.trim_end().to_string());
        }
        lines.join("\n")
    }

    /// Draws the histogram below `top`, and returns the y coordinate of its lower edge.
    fn draw_svg(&self, document: &mut Document, top: u32) -> u32 {
        document.append(svg_text(&self.title, 12, top + ROW_HEIGHT).set("font-weight", "bold"));
        let mut y = top + ROW_HEIGHT + ROW_HEIGHT / 2;
        for row in &self.rows {
            let [from, to, count] = row.labels(self.scale);
            let bar = self.bar_length(row, SVG_MAX_BAR);
            let base = y + ROW_HEIGHT - 5;
            let label = svg_text(&format!("{from} - {to}"), BAR_X - 8, base);
            document.append(label.set("text-anchor", "end"));
            if bar > 0 {
                let bar = Rectangle::new()
                    .set("width", bar)
                    .set("height", ROW_HEIGHT - 2);
                document.append(bar.set("x", BAR_X).set("y", y + 1).set("fill", "#4878a8"));
            }
            document.append(svg_text(&count, BAR_X + bar + 6, base));
            y += ROW_HEIGHT;
        }
        y
    }
}

impl Row {
    /// Returns the texts of the lower bound, the upper bound and the count.
    fn labels(&self, scale: Scale) -> [String; 3] {
        [
            latency::format_time(self.from, scale),
            latency::format_time(self.to, scale),
            self.count.to_string(),
        ]
    }
}

/// Merges buckets into rows, from the first to the last bucket that is not empty. Each row has the
/// smallest power of two of buckets that keeps the number of rows within the limit. A gap of any
/// width is one row, so that outliers do not reduce the resolution.
fn rows(buckets: &[u64]) -> Vec<Row> {
    let mut per_row = 1;
    loop {
        let rows = merge_buckets(buckets, per_row);
        if rows.len() <= MAX_ROWS {
            return rows;
        }
        per_row *= 2;
    }
}

fn merge_buckets(buckets: &[u64], per_row: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, counts) in buckets.chunks(per_row).enumerate() {
        let (begin, end) = (at * per_row, at * per_row + counts.len());
        let row = Row {
            from: latency::bucket_min(begin),
            to: latency::bucket_max(end - 1).saturating_add(1),
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

fn block_bar(eighths: u32) -> String {
    let full = BLOCKS[8].repeat(eighths as usize / 8);
    full + BLOCKS[eighths as usize % 8]
}

fn svg_text(content: &str, x: u32, y: u32) -> Text {
    Text::new(content).set("x", x).set("y", y)
}

/// Draws the histograms one below the other in a self-contained SVG document.
pub fn to_svg(histograms: &[Histogram]) -> String {
    let mut document = Document::new()
        .set("font-family", "sans-serif")
        .set("font-size", 12);
    document.append(
        Rectangle::new()
            .set("width", "100%")
            .set("height", "100%")
            .set("fill", "#ffffff"),
    );
    let mut y = 6;
    for histogram in histograms {
        y = histogram.draw_svg(&mut document, y) + ROW_HEIGHT / 2;
    }
    let document = document
        .set("width", SVG_WIDTH)
        .set("height", y)
        .set("viewBox", (0, 0, SVG_WIDTH, y));
    format!("{document}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{
        bucket_of,
        BUCKETS, //
    };

    fn buckets(values: &[(u64, u64)]) -> Vec<u64> {
        let mut buckets = vec![0; BUCKETS];
        for &(value, count) in values {
            buckets[bucket_of(value)] += count;
        }
        buckets
    }

    fn histogram(values: &[(u64, u64)]) -> Histogram {
        Histogram::new(
            "a <title> & more".to_string(),
            &buckets(values),
            Scale::HalfRoundTrip,
        )
    }

    /// Returns round trips of about 20 µs with a few outliers.
    fn sample() -> Histogram {
        histogram(&[
            (19_000, 3),
            (20_000, 4000),
            (21_000, 1500),
            (25_000, 77),
            (300_000, 1),
        ])
    }

    #[test]
    fn a_histogram_is_printed_as_bars() {
        assert_eq!(
            sample().to_text(None) + "\n",
            include_str!("golden/bars.txt")
        );
    }

    #[test]
    fn svg_has_the_rows_of_the_text() {
        let histograms = [sample(), histogram(&[(1000, 1)])];
        assert_eq!(to_svg(&histograms), include_str!("golden/bars.svg"));
    }

    #[test]
    fn every_value_is_in_one_of_at_most_20_rows() {
        for high in 0..BUCKETS {
            for low in [0, 1, 15, high / 2, high].map(|low| low.min(high)) {
                let mut buckets = vec![0; BUCKETS];
                buckets[low] += 1;
                buckets[high] += 2;
                let rows = rows(&buckets);
                assert!(rows.len() <= MAX_ROWS, "{low} {high}");
                assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 3);
                assert!(rows.windows(2).all(|pair| pair[0].to == pair[1].from));
                assert!(rows[0].count > 0 && rows[rows.len() - 1].count > 0);
            }
        }
    }

    #[test]
    fn rows_merge_a_power_of_two_of_buckets() {
        let mut buckets = vec![0; BUCKETS];
        buckets[160..160 + 2 * MAX_ROWS].fill(1);
        assert_eq!(rows(&buckets).len(), MAX_ROWS);
        buckets[160 + 2 * MAX_ROWS] = 1;
        let counts: Vec<_> = rows(&buckets).iter().map(|row| row.count).collect();
        assert_eq!(counts, [4; 10].into_iter().chain([1]).collect::<Vec<_>>());
    }

    #[test]
    fn an_outlier_does_not_reduce_the_resolution() {
        let histogram = histogram(&[(32, 5), (34, 6), (1 << 20, 1)]);
        let expected = [
            (32, 34, 5),
            (34, 36, 6),
            (36, 1 << 20, 0),
            (1 << 20, 17 << 16, 1),
        ];
        let expected = expected.map(|(from, to, count)| Row { from, to, count });
        assert_eq!(histogram.rows, expected);
    }

    #[test]
    fn neighbouring_buckets_are_separate_rows() {
        let histogram = histogram(&[(32, 5), (34, 6)]);
        let expected = [(32, 34, 5), (34, 36, 6)];
        let expected = expected.map(|(from, to, count)| Row { from, to, count });
        assert_eq!(histogram.rows, expected);
    }

    #[test]
    fn a_single_value_among_many_has_a_visible_bar() {
        let lines = histogram(&[(20_000, 1_000_000), (40_000, 1)]).to_text(None);
        assert!(lines.ends_with("1  ▏"), "{lines}");
    }

    #[test]
    fn the_longest_bar_fits_into_the_terminal() {
        for width in [40, 60, 80, 100] {
            let lines = sample().to_text(Some(width));
            let longest = lines.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width.into()), "{width}: {lines}");
            assert!(
                width > 80 || longest == Some(width.into()),
                "{width}: {lines}"
            );
        }
    }

    #[test]
    fn bars_have_a_resolution_of_an_eighth() {
        assert_eq!(block_bar(0), "");
        assert_eq!(block_bar(8), "█");
        assert_eq!(block_bar(19), "██▍");
    }

    #[test]
    fn an_empty_histogram_has_no_rows() {
        assert_eq!(histogram(&[]).to_text(None), "a <title> & more");
    }
}
