// SPDX-License-Identifier: GPL-2.0

//! Text tables, and the table of offers.

use crate::{
    abi::{
        self,
        Offer,
        TextType, //
    },
    error::Error,
    kernel::Kernel,
    names::{
        self,
        Names, //
    },
};
use comfy_table::{
    presets,
    CellAlignment,
    ColumnConstraint,
    ContentArrangement,
    Table,
    TableComponent,
    Width, //
};

const HEADER: [&str; 7] = [
    "provider",
    "fabric",
    "domain",
    "type",
    "protocol",
    "address",
    "capabilities",
];

/// Minimum width of the capabilities column, even if the table is wider than the terminal.
const MIN_CAPS_WIDTH: u16 = 20;

/// Names that the table of offers needs.
struct OfferNames<'a> {
    kernel: &'a dyn Kernel,
    caps: Names,
    ep_type: Names,
    protocol: Names,
}

/// Formats a table of `offers`. The last column is wrapped so that the lines fit into `width`.
pub fn format_offers(
    kernel: &dyn Kernel,
    offers: &[Offer],
    width: Option<u16>,
) -> Result<String, Error> {
    let names = OfferNames {
        kernel,
        caps: Names::read_flags(kernel, TextType::KOFI_TEXT_CAPS)?,
        ep_type: Names::read_values(kernel, TextType::KOFI_TEXT_EP_TYPE)?,
        protocol: Names::read_values(kernel, TextType::KOFI_TEXT_PROTOCOL)?,
    };
    let mut table = new_table(&HEADER);
    if let Some(width) = width {
        table.set_width(width);
    }
    for offer in offers {
        table.add_row(names.row(offer)?);
    }
    let last = HEADER.len() - 1;
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        column.set_constraint(if at < last {
            ColumnConstraint::ContentWidth
        } else {
            ColumnConstraint::LowerBoundary(Width::Fixed(MIN_CAPS_WIDTH))
        });
    }
    Ok(table.trim_fmt())
}

/// Formats a table with right-aligned cells, for numbers.
pub fn right_aligned(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = new_table(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Formats a table with left-aligned cells, for text.
pub fn left_aligned(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = new_table(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt()
}

/// Returns the text of a cell, or a dash if there is none.
pub fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_string())
}

/// Formats a number with `digits` decimals, or as a dash if there is none.
pub fn format_decimal(number: Option<f64>, digits: usize) -> String {
    or_dash(number.map(|number| format!("{number:.digits$}")))
}

/// Formats a number in at most five characters: from 10000 on with a suffix for thousands, millions
/// and so on.
pub fn format_short(number: f64) -> String {
    const UNITS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut number = number;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while number >= 9999.5 {
        let Some(next) = units.next() else {
            break;
        };
        unit = Some(next);
        number /= 1000.0;
    }
    let unit = unit.copied().unwrap_or_default();
    match unit {
        "" => format!("{number:.0}"),
        unit if number < 99.95 => format!("{number:.1}{unit}"),
        unit => format!("{number:.0}{unit}"),
    }
}

/// Returns a table with a line below its header and no other lines.
fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '-')
        .set_style(TableComponent::MiddleHeaderIntersections, ' ')
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    table
}

impl OfferNames<'_> {
    fn row(&self, offer: &Offer) -> Result<[String; HEADER.len()], Error> {
        Ok([
            abi::get_string(&offer.prov_name),
            abi::get_string(&offer.fabric_name),
            abi::get_string(&offer.domain_name),
            self.value(&self.ep_type, TextType::KOFI_TEXT_EP_TYPE, offer.ep_type)?,
            self.value(
                &self.protocol,
                TextType::KOFI_TEXT_PROTOCOL,
                offer.ep_protocol,
            )?,
            format_addresses(offer),
            self.caps(offer.caps)?,
        ])
    }

    fn value(&self, names: &Names, kind: TextType, value: u32) -> Result<String, Error> {
        Ok(names.short(&self.kernel.text(kind, value.into())?))
    }

    fn caps(&self, caps: u64) -> Result<String, Error> {
        let all = names::flag_names(self.kernel, TextType::KOFI_TEXT_CAPS, caps)?;
        let all: Vec<_> = all.iter().map(|name| self.caps.short(name)).collect();
        Ok(all.join(", "))
    }
}

/// Formats the source and destination addresses that an offer has, without their format prefixes.
fn format_addresses(offer: &Offer) -> String {
    let source = abi::get_address(&offer.src_addr);
    match (source, abi::get_address(&offer.dest_addr)) {
        (Some(source), Some(dest)) => format!("{source} -> {dest}"),
        (None, Some(dest)) => format!("-> {dest}"),
        (source, None) => or_dash(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::set_string,
        fake::{
            sample_offer,
            FakeKernel, //
        },
    };

    fn table(offers: &[Offer], width: Option<u16>) -> String {
        format_offers(&FakeKernel::default(), offers, width).unwrap() + "\n"
    }

    fn addresses(source: &str, dest: &str) -> String {
        let mut offer = sample_offer();
        set_string(&mut offer.src_addr, source, "").unwrap();
        set_string(&mut offer.dest_addr, dest, "").unwrap();
        let table = table(&[offer], None);
        let (columns, row) = (table.lines().nth(1).unwrap(), table.lines().nth(2).unwrap());
        let starts: Vec<_> = columns.match_indices(" -").map(|(at, _)| at + 1).collect();
        row[starts[4]..starts[5]].trim().to_string()
    }

    #[test]
    fn capabilities_wrap_to_the_terminal() {
        assert_eq!(
            table(&[sample_offer(), sample_offer()], Some(100)),
            include_str!("golden/table.txt")
        );
    }

    #[test]
    fn without_a_terminal_each_offer_is_one_line() {
        assert_eq!(
            table(&[sample_offer(), sample_offer()], None)
                .lines()
                .count(),
            4
        );
    }

    #[test]
    fn a_narrow_terminal_truncates_no_text() {
        let table = table(&[sample_offer()], Some(20));
        assert!(table.contains("rdma_cm_ib_rc"), "{table}");
        assert!(table.contains("remote_write"), "{table}");
    }

    #[test]
    fn the_address_column_has_source_and_destination() {
        let (here, there) = (
            "fi_sockaddr_in://10.0.0.1:0",
            "fi_sockaddr_in://10.0.0.2:7471",
        );
        assert_eq!(addresses("", ""), "-");
        assert_eq!(addresses(here, ""), "10.0.0.1:0");
        assert_eq!(addresses("", there), "-> 10.0.0.2:7471");
        assert_eq!(addresses(here, there), "10.0.0.1:0 -> 10.0.0.2:7471");
    }

    #[test]
    fn short_numbers_have_at_most_five_characters() {
        for (number, text) in [
            (0.0, "0"),
            (0.4, "0"),
            (9999.0, "9999"),
            (9999.6, "10.0k"),
            (12_345.0, "12.3k"),
            (99_949.0, "99.9k"),
            (123_456.0, "123k"),
            (9_999_400.0, "9999k"),
            (12.3e9, "12.3G"),
            (18.4e18, "18.4E"),
        ] {
            assert_eq!(format_short(number), text);
        }
    }

    #[test]
    fn numbers_without_a_name_have_the_text_of_the_kernel() {
        let mut offer = sample_offer();
        offer.ep_protocol = 0x8000_0001;
        offer.caps = 0x3;
        let table = table(&[offer], None);
        assert!(table.contains("unknown (0x80000001)"), "{table}");
        assert!(table.contains("msg, 0x1"), "{table}");
    }
}
