// SPDX-License-Identifier: GPL-2.0

//! `kofi info`: lists the offers of `fi_getinfo()`.

use crate::{
    abi::{
        match_all_query,
        set_string,
        Query,
        TextType,
        KOFI_INFO_SOURCE, //
    },
    error::Error,
    json,
    kernel::Kernel,
    names::{
        parse_flags,
        parse_value, //
    },
    offer_tree,
    table, //
};

/// Help text below the options. The names themselves come from the kernel.
const LIST_HELP: &str = "\
A LIST has names separated by commas, such as msg,rma,remote_read, with or without
FI_, in upper or lower case. The error for an unknown name lists the known names.";

#[derive(clap::Args)]
#[command(after_help = LIST_HELP)]
pub struct Args {
    /// Address of the peer
    node: Option<String>,

    /// Port of the peer
    service: Option<String>,

    /// NODE and SERVICE are the local address
    #[arg(long, requires = "node")]
    source: bool,

    /// Only offers with these capabilities
    #[arg(short, long, value_name = "LIST")]
    caps: Option<String>,

    /// Only offers that require no mode bits other than these; default: any mode bits
    #[arg(short, long, value_name = "LIST")]
    mode: Option<String>,

    /// Only offers with this endpoint type
    #[arg(short = 't', long, value_name = "TYPE")]
    ep_type: Option<String>,

    /// Only offers of this provider
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,

    /// Only offers on this fabric
    #[arg(short, long, value_name = "NAME")]
    fabric: Option<String>,

    /// Only offers on this domain, which has the name of the RDMA device
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,

    /// Only offers that require no memory registration modes other than these
    #[arg(long, value_name = "LIST")]
    mr_mode: Option<String>,

    /// Print every attribute of each offer
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,

    /// Print every attribute of each offer as an array of JSON objects
    #[arg(long)]
    json: bool,
}

impl Args {
    fn query(&self, kernel: &dyn Kernel) -> Result<Query, Error> {
        let mut query = match_all_query();
        if self.source {
            query.flags |= KOFI_INFO_SOURCE;
        }
        if let Some(list) = &self.caps {
            query.caps = parse_flags(kernel, TextType::KOFI_TEXT_CAPS, "--caps", list)?;
        }
        if let Some(list) = &self.mode {
            query.mode = parse_flags(kernel, TextType::KOFI_TEXT_MODE, "--mode", list)?;
        }
        if let Some(list) = &self.mr_mode {
            let option = "--mr-mode";
            let flags = parse_flags(kernel, TextType::KOFI_TEXT_MR_MODE, option, list)?;
            query.mr_mode = u32::try_from(flags).map_err(|_| Error::OutOfRange { option })?;
        }
        if let Some(name) = &self.ep_type {
            let kind = TextType::KOFI_TEXT_EP_TYPE;
            query.ep_type = parse_value(kernel, kind, "--ep-type", name)?;
        }
        for (field, value, option) in [
            (&mut query.node[..], &self.node, "NODE"),
            (&mut query.service[..], &self.service, "SERVICE"),
            (&mut query.prov_name[..], &self.provider, "--provider"),
            (&mut query.fabric_name[..], &self.fabric, "--fabric"),
            (&mut query.domain_name[..], &self.domain, "--domain"),
        ] {
            set_string(field, value.as_deref().unwrap_or_default(), option)?;
        }
        Ok(query)
    }
}

/// Formats the offers that match the query: as blocks with `--verbose`, as JSON with `--json`, otherwise as a table for
/// a terminal of `width` columns.
pub fn run(kernel: &dyn Kernel, args: &Args, width: Option<u16>) -> Result<String, Error> {
    let offers = kernel.offers(&args.query(kernel)?)?;
    if !args.verbose && !args.json {
        return table::format_offers(kernel, &offers, width);
    }
    let trees: Vec<_> = offers
        .iter()
        .map(|offer| offer_tree::build(kernel, offer))
        .collect::<Result<_, _>>()?;
    if args.json {
        return json::pretty(&trees);
    }
    let blocks: Vec<_> = trees.iter().map(|tree| format!("---\n{tree}")).collect();
    Ok(blocks.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        abi::get_string,
        fake::FakeKernel, //
    };
    use clap::Parser;

    #[derive(Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn args(line: &[&str]) -> Args {
        let line = ["info"].iter().chain(line);
        TestCli::try_parse_from(line).unwrap().args
    }

    fn query(line: &[&str]) -> Result<Query, Error> {
        args(line).query(&FakeKernel::default())
    }

    fn shown(line: &[&str]) -> String {
        run(&FakeKernel::with_offers(1), &args(line), Some(100)).unwrap() + "\n"
    }

    #[test]
    fn without_options_the_query_matches_every_offer() {
        assert!(query(&[]).unwrap() == match_all_query());
        assert_eq!(match_all_query().mode, u64::MAX);
    }

    #[test]
    fn options_become_fields_of_the_query() {
        let query = query(&[
            "10.0.0.2",
            "7471",
            "--source",
            "-c",
            "msg,rma",
            "-m",
            "context",
            "-t",
            "rdm",
            "-p",
            "verbs",
            "-f",
            "RoCE",
            "-d",
            "rxe0",
            "--mr-mode",
            "local",
        ])
        .unwrap();
        assert_eq!(query.flags, KOFI_INFO_SOURCE);
        assert_eq!(query.caps, 1 << 1 | 1 << 2);
        assert_eq!(query.mode, 1 << 59);
        assert_eq!(query.ep_type, 3);
        assert_eq!(query.mr_mode, 1 << 2);
        assert_eq!(get_string(&query.node), "10.0.0.2");
        assert_eq!(get_string(&query.service), "7471");
        assert_eq!(get_string(&query.prov_name), "verbs");
        assert_eq!(get_string(&query.fabric_name), "RoCE");
        assert_eq!(get_string(&query.domain_name), "rxe0");
    }

    #[test]
    fn an_empty_mode_list_accepts_no_mode_bit() {
        assert_eq!(query(&["-m", ""]).unwrap().mode, 0);
    }

    #[test]
    fn a_name_that_is_too_long_is_reported_with_its_option() {
        let long = "x".repeat(64);
        let error = query(&["-d", &long]).unwrap_err().to_string();
        assert_eq!(error, "--domain: at most 63 bytes without a NUL byte");
    }

    #[test]
    fn a_local_address_needs_a_node() {
        assert!(TestCli::try_parse_from(["info", "--source"]).is_err());
    }

    #[test]
    fn offers_are_a_table_by_default() {
        assert!(shown(&[]).starts_with("provider "));
    }

    #[test]
    fn verbose_offers_are_indented_blocks() {
        let block = include_str!("golden/block.txt");
        assert_eq!(shown(&["-v"]), format!("---\n{block}"));
    }

    #[test]
    fn json_is_an_array_of_offers() {
        assert_eq!(shown(&["--json"]), include_str!("golden/offers.json"));
    }

    #[test]
    fn the_query_reaches_the_kernel() {
        let kernel = FakeKernel::with_offers(1);
        run(&kernel, &args(&["-d", "rxe0"]), None).unwrap();
        let queries = kernel.queries.borrow();
        assert_eq!(get_string(&queries.last().unwrap().domain_name), "rxe0");
    }
}
