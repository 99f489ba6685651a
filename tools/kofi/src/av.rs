// SPDX-License-Identifier: GPL-2.0

//! `kofi av`: lists the addresses in an address vector.

use crate::{
    abi::{
        self,
        Address,
        KOFI_ADDRESS_USER_ID, //
    },
    error::Error,
    json,
    kernel::Kernel,
    table::{
        or_dash,
        right_aligned, //
    },
};
use serde::Serialize;

#[derive(clap::Args)]
pub struct Args {
    /// Object id of the address vector, as `kofi ls -k av` shows it
    id: u64,

    /// Maximum number of addresses to list; default: all
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Print an array of JSON objects
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    fi_addr: u64,
    address: Option<String>,
    /// Number of insertions minus number of removals.
    uses: u32,
    user_id: Option<u64>,
}

impl From<&Address> for Row {
    fn from(from: &Address) -> Self {
        let has_id = from.flags & KOFI_ADDRESS_USER_ID != 0;
        Self {
            fi_addr: from.fi_addr,
            address: abi::get_address(&from.addr),
            uses: from.uses,
            user_id: has_id.then_some(from.user_id),
        }
    }
}

/// Lists the addresses as a table or as JSON.
pub fn run(kernel: &dyn Kernel, args: &Args) -> Result<String, Error> {
    let most = args.count.and_then(|count| usize::try_from(count).ok());
    let addresses = kernel.addresses(args.id, most.unwrap_or(usize::MAX))?;
    let rows: Vec<_> = addresses.iter().map(Row::from).collect();
    if args.json {
        return json::pretty(&rows);
    }
    if rows.is_empty() {
        return Ok("no addresses".to_string());
    }
    let cells = rows.iter().map(|row| {
        vec![
            format!("{:#x}", row.fi_addr),
            or_dash(row.address.clone()),
            row.uses.to_string(),
            or_dash(row.user_id.map(|id| format!("{id:#x}"))),
        ]
    });
    Ok(right_aligned(
        &["fi_addr", "address", "uses", "user id"],
        cells,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn shown(line: &[&str]) -> Result<String, Error> {
        let line = ["av"].iter().chain(line);
        let args = TestCli::try_parse_from(line).unwrap().args;
        Ok(run(&FakeKernel::with_objects(), &args)? + "\n")
    }

    #[test]
    fn addresses_are_printed_as_a_table() {
        assert_eq!(
            shown(&["9", "-n", "3"]).unwrap(),
            include_str!("golden/av.txt")
        );
    }

    #[test]
    fn json_has_the_fields_of_the_table() {
        let json: serde_json::Value =
            serde_json::from_str(&shown(&["9", "--json"]).unwrap()).unwrap();
        assert_eq!(json[0]["address"], "10.0.0.1:1");
        assert_eq!(json[0]["user_id"], 4096);
        assert_eq!(json[1]["user_id"], serde_json::Value::Null);
    }

    #[test]
    fn all_addresses_are_listed_over_several_requests() {
        // One line for each address, and two for the header.
        assert_eq!(shown(&["9"]).unwrap().lines().count(), 302);
    }

    #[test]
    fn a_limit_of_zero_is_rejected() {
        // With a limit of 0, the output would be "no addresses" for any vector.
        assert!(TestCli::try_parse_from(["av", "9", "-n", "0"]).is_err());
    }

    #[test]
    fn an_object_that_is_not_an_av_is_rejected() {
        let error = shown(&["7"]).unwrap_err().to_string();
        assert_eq!(error, "object 7 is not an address vector");
        let error = shown(&["77"]).unwrap_err().to_string();
        assert_eq!(error, "no object 77 in this network namespace");
    }
}
