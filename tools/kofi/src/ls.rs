// SPDX-License-Identifier: GPL-2.0

//! `kofi ls`: lists the open objects, with their owners and states.

use crate::{
    abi::TextType,
    error::Error,
    json,
    kernel::Kernel,
    names::parse_texts,
    object_tree::{
        read_objects,
        ObjectNode, //
    },
};

#[derive(clap::Args)]
pub struct Args {
    /// Only objects of these kinds, such as ep,cq, and their parents
    #[arg(short, long, value_name = "LIST")]
    kind: Option<String>,

    /// Only objects of this domain, which has the name of the RDMA device
    #[arg(short, long, value_name = "NAME")]
    domain: Option<String>,

    /// Only objects that this module or program opened
    #[arg(short, long, value_name = "NAME")]
    owner: Option<String>,

    /// Print trees of JSON objects
    #[arg(long)]
    json: bool,
}

/// Formats the open objects as trees or as JSON.
pub fn run(kernel: &dyn Kernel, args: &Args) -> Result<String, Error> {
    let mut roots = read_objects(kernel)?;
    args.filter(kernel, &mut roots)?;
    if args.json {
        return json::pretty(&roots);
    }
    if roots.is_empty() {
        return Ok("nothing is open".to_string());
    }
    let mut lines = Vec::new();
    for root in &roots {
        lines.push(format!("{}  of {}", describe(root), root.owner.label()));
        draw_tree(&root.children, "", &mut lines);
    }
    Ok(lines.join("\n"))
}

impl Args {
    fn filter(&self, kernel: &dyn Kernel, roots: &mut Vec<ObjectNode>) -> Result<(), Error> {
        if let Some(owner) = &self.owner {
            roots.retain(|root| root.owner.name == *owner);
        }
        if let Some(domain) = &self.domain {
            for root in &mut *roots {
                let matches = |child: &ObjectNode| child.name.as_ref() == Some(domain);
                root.children.retain(matches);
            }
            roots.retain(|root| !root.children.is_empty());
        }
        if let Some(list) = &self.kind {
            let kinds = parse_texts(kernel, TextType::KOFI_TEXT_OBJECT, "--kind", list)?;
            roots.retain_mut(|root| root.prune(&|node| kinds.contains(&node.kind)));
        }
        Ok(())
    }
}

/// Appends the lines of `nodes`, each after `indent`.
fn draw_tree(nodes: &[ObjectNode], indent: &str, lines: &mut Vec<String>) {
    for (at, node) in nodes.iter().enumerate() {
        let (branch, continuation) = if at + 1 == nodes.len() {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        lines.push(format!("{indent}{branch}{}", describe(node)));
        draw_tree(&node.children, &format!("{indent}{continuation}"), lines);
    }
}

/// Formats the kind, id, name, state, addresses and current values of an object, but not its
/// cumulative values.
fn describe(node: &ObjectNode) -> String {
    let mut parts = vec![format!("{} {}", node.kind, node.id)];
    parts.extend(node.name.clone());
    if node.state != "open" {
        parts.push(node.state.clone());
    }
    match (&node.local, &node.peer) {
        (Some(local), Some(peer)) => parts.push(format!("{local} - {peer}")),
        (Some(one), None) => parts.push(one.clone()),
        (None, Some(peer)) => parts.push(format!("* - {peer}")),
        (None, None) => {}
    }
    let values = node
        .values
        .iter()
        .filter(|value| !value.is_cumulative())
        .map(|value| format!("{} {}", value.name, value.number));
    parts.extend(Some(values.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()));
    parts.join("  ")
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

    fn shown(kernel: &FakeKernel, line: &[&str]) -> Result<String, Error> {
        let line = ["ls"].iter().chain(line);
        let args = TestCli::try_parse_from(line).unwrap().args;
        Ok(run(kernel, &args)? + "\n")
    }

    fn of_some(line: &[&str]) -> String {
        shown(&FakeKernel::with_objects(), line).unwrap()
    }

    #[test]
    fn objects_are_printed_as_a_tree_with_owners() {
        assert_eq!(of_some(&[]), include_str!("golden/ls.txt"));
    }

    #[test]
    fn json_has_the_tree_of_the_text() {
        assert_eq!(of_some(&["--json"]), include_str!("golden/ls.json"));
    }

    #[test]
    fn selected_kinds_keep_their_parents() {
        let text = of_some(&["--kind", "av_set,pep"]);
        let first: Vec<_> = text
            .lines()
            .map(|line| line.trim_start_matches(['│', '├', '└', '─', ' ']))
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        assert_eq!(first, ["fabric", "pep", "domain", "av", "av_set"]);
    }

    #[test]
    fn domains_and_owners_are_selected_by_name() {
        assert_eq!(of_some(&["-d", "rxe0"]).lines().count(), 7);
        assert_eq!(of_some(&["-o", "kofi"]).lines().count(), 2);
        assert_eq!(of_some(&["-o", "other"]), "nothing is open\n");
    }

    #[test]
    fn an_unknown_kind_is_reported_with_the_known_ones() {
        let error = shown(&FakeKernel::with_objects(), &["-k", "queue"]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("--kind: no `queue`; there are: fabric, domain, ep, pep"),
            "{message}"
        );
    }

    #[test]
    fn an_empty_list_is_reported() {
        assert_eq!(
            shown(&FakeKernel::default(), &[]).unwrap(),
            "nothing is open\n"
        );
        assert_eq!(shown(&FakeKernel::default(), &["--json"]).unwrap(), "[]\n");
    }
}
