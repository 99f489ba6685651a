// SPDX-License-Identifier: GPL-2.0

//! The attribute tree of an offer, with the field names of `struct fi_info`, as text and as JSON.

use crate::{
    abi::{
        self,
        Offer,
        TextType, //
    },
    error::Error,
    kernel::Kernel,
    names, //
};
use serde::{
    Serialize,
    Serializer, //
};
use std::fmt;

/// Value of an attribute, or a group of attributes.
pub enum AttrValue {
    Group(Vec<(&'static str, AttrValue)>),
    Flags(Vec<String>),
    Number(u64),
    /// A bit mask: hexadecimal as text, a plain number in JSON.
    Mask(u64),
    /// A text; an empty one means that there is no value.
    Text(String),
}

use AttrValue::{
    Group,
    Mask,
    Number, //
};

/// Builds the tree of all attributes of an offer.
pub fn build(kernel: &dyn Kernel, offer: &Offer) -> Result<AttrValue, Error> {
    let reader = AttrReader(kernel);
    Ok(Group(vec![
        ("caps", reader.caps(offer.caps)?),
        ("mode", reader.mode(offer.mode)?),
        (
            "addr_format",
            reader.value(TextType::KOFI_TEXT_ADDR_FORMAT, offer.addr_format)?,
        ),
        ("src_addr", text(&offer.src_addr)),
        ("dest_addr", text(&offer.dest_addr)),
        ("tx_attr", tx_attr(&reader, offer)?),
        ("rx_attr", rx_attr(&reader, offer)?),
        ("ep_attr", ep_attr(&reader, offer)?),
        ("domain_attr", domain_attr(&reader, offer)?),
        ("fabric_attr", fabric_attr(offer)),
    ]))
}

fn tx_attr(reader: &AttrReader<'_>, offer: &Offer) -> Result<AttrValue, Error> {
    Ok(Group(vec![
        ("caps", reader.caps(offer.tx_caps)?),
        ("mode", reader.mode(offer.tx_mode)?),
        ("op_flags", reader.op_flags(offer.tx_op_flags)?),
        ("msg_order", reader.order(offer.tx_msg_order)?),
        ("comp_order", reader.order(offer.tx_comp_order)?),
        ("inject_size", Number(offer.tx_inject_size)),
        ("size", Number(offer.tx_size)),
        ("iov_limit", Number(offer.tx_iov_limit)),
        ("rma_iov_limit", Number(offer.tx_rma_iov_limit)),
    ]))
}

fn rx_attr(reader: &AttrReader<'_>, offer: &Offer) -> Result<AttrValue, Error> {
    Ok(Group(vec![
        ("caps", reader.caps(offer.rx_caps)?),
        ("mode", reader.mode(offer.rx_mode)?),
        ("op_flags", reader.op_flags(offer.rx_op_flags)?),
        ("msg_order", reader.order(offer.rx_msg_order)?),
        ("comp_order", reader.order(offer.rx_comp_order)?),
        ("total_buffered_recv", Number(offer.rx_total_buffered_recv)),
        ("size", Number(offer.rx_size)),
        ("iov_limit", Number(offer.rx_iov_limit)),
    ]))
}

fn ep_attr(reader: &AttrReader<'_>, offer: &Offer) -> Result<AttrValue, Error> {
    let protocol = TextType::KOFI_TEXT_PROTOCOL;
    Ok(Group(vec![
        (
            "type",
            reader.value(TextType::KOFI_TEXT_EP_TYPE, offer.ep_type)?,
        ),
        ("protocol", reader.value(protocol, offer.ep_protocol)?),
        ("protocol_version", Number(offer.ep_protocol_version.into())),
        ("max_msg_size", Number(offer.ep_max_msg_size)),
        ("msg_prefix_size", Number(offer.ep_msg_prefix_size)),
        ("max_order_raw_size", Number(offer.ep_max_order_raw_size)),
        ("max_order_war_size", Number(offer.ep_max_order_war_size)),
        ("max_order_waw_size", Number(offer.ep_max_order_waw_size)),
        ("mem_tag_format", Mask(offer.ep_mem_tag_format)),
        ("tx_ctx_cnt", Number(offer.ep_tx_ctx_cnt)),
        ("rx_ctx_cnt", Number(offer.ep_rx_ctx_cnt)),
    ]))
}

fn domain_attr(reader: &AttrReader<'_>, offer: &Offer) -> Result<AttrValue, Error> {
    let threading = TextType::KOFI_TEXT_THREADING;
    let av_type = TextType::KOFI_TEXT_AV_TYPE;
    let resources = TextType::KOFI_TEXT_RESOURCE_MGMT;
    Ok(Group(vec![
        ("name", text(&offer.domain_name)),
        (
            "threading",
            reader.value(threading, offer.domain_threading)?,
        ),
        (
            "control_progress",
            reader.progress(offer.domain_control_progress)?,
        ),
        (
            "data_progress",
            reader.progress(offer.domain_data_progress)?,
        ),
        (
            "resource_mgmt",
            reader.value(resources, offer.domain_resource_mgmt)?,
        ),
        ("av_type", reader.value(av_type, offer.domain_av_type)?),
        ("mr_mode", reader.mr_mode(offer.domain_mr_mode)?),
        ("mr_key_size", Number(offer.domain_mr_key_size)),
        ("cq_data_size", Number(offer.domain_cq_data_size)),
        ("cq_cnt", Number(offer.domain_cq_cnt)),
        ("ep_cnt", Number(offer.domain_ep_cnt)),
        ("tx_ctx_cnt", Number(offer.domain_tx_ctx_cnt)),
        ("rx_ctx_cnt", Number(offer.domain_rx_ctx_cnt)),
        ("max_ep_tx_ctx", Number(offer.domain_max_ep_tx_ctx)),
        ("max_ep_rx_ctx", Number(offer.domain_max_ep_rx_ctx)),
        ("max_ep_stx_ctx", Number(offer.domain_max_ep_stx_ctx)),
        ("max_ep_srx_ctx", Number(offer.domain_max_ep_srx_ctx)),
        ("cntr_cnt", Number(offer.domain_cntr_cnt)),
        ("mr_iov_limit", Number(offer.domain_mr_iov_limit)),
        ("caps", reader.caps(offer.domain_caps)?),
        ("mode", reader.mode(offer.domain_mode)?),
        ("max_err_data", Number(offer.domain_max_err_data)),
        ("mr_cnt", Number(offer.domain_mr_cnt)),
    ]))
}

fn fabric_attr(offer: &Offer) -> AttrValue {
    let version = |number| AttrValue::Text(abi::format_version(number));
    Group(vec![
        ("name", text(&offer.fabric_name)),
        ("prov_name", text(&offer.prov_name)),
        ("prov_version", version(offer.fabric_prov_version)),
        ("api_version", version(offer.fabric_api_version)),
    ])
}

fn text(field: &[std::ffi::c_char]) -> AttrValue {
    AttrValue::Text(abi::get_string(field))
}

/// Converts numbers to attribute values with the kernel's names.
struct AttrReader<'a>(&'a dyn Kernel);

impl AttrReader<'_> {
    fn flags(&self, kind: TextType, flags: u64) -> Result<AttrValue, Error> {
        Ok(AttrValue::Flags(names::flag_names(self.0, kind, flags)?))
    }

    fn caps(&self, flags: u64) -> Result<AttrValue, Error> {
        self.flags(TextType::KOFI_TEXT_CAPS, flags)
    }

    fn mode(&self, flags: u64) -> Result<AttrValue, Error> {
        self.flags(TextType::KOFI_TEXT_MODE, flags)
    }

    fn op_flags(&self, flags: u64) -> Result<AttrValue, Error> {
        self.flags(TextType::KOFI_TEXT_OP_FLAGS, flags)
    }

    /// Converts a message order or a completion order.
    fn order(&self, flags: u64) -> Result<AttrValue, Error> {
        self.flags(TextType::KOFI_TEXT_ORDER, flags)
    }

    fn mr_mode(&self, flags: u32) -> Result<AttrValue, Error> {
        self.flags(TextType::KOFI_TEXT_MR_MODE, flags.into())
    }

    fn value(&self, kind: TextType, value: u32) -> Result<AttrValue, Error> {
        Ok(AttrValue::Text(self.0.text(kind, value.into())?))
    }

    fn progress(&self, value: u32) -> Result<AttrValue, Error> {
        self.value(TextType::KOFI_TEXT_PROGRESS, value)
    }
}

impl Serialize for AttrValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Group(fields) => {
                serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
            }
            Self::Flags(names) => names.serialize(serializer),
            Self::Number(number) | Self::Mask(number) => serializer.serialize_u64(*number),
            Self::Text(text) if text.is_empty() => serializer.serialize_none(),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl AttrValue {
    /// Writes each field of a group on a line of its own after `indent`, or any other value at the
    /// end of the current line.
    fn write_fields(&self, f: &mut fmt::Formatter<'_>, indent: usize) -> fmt::Result {
        match self {
            Self::Group(fields) => {
                for (name, value) in fields {
                    write!(f, "\n{:indent$}{name}:", "")?;
                    value.write_fields(f, indent + 4)?;
                }
                Ok(())
            }
            Self::Flags(names) if names.is_empty() => write!(f, " [ ]"),
            Self::Flags(names) => write!(f, " [ {} ]", names.join(", ")),
            Self::Number(number) => write!(f, " {number}"),
            Self::Mask(number) => write!(f, " {number:#x}"),
            Self::Text(text) if text.is_empty() => write!(f, " (none)"),
            Self::Text(text) => write!(f, " {text}"),
        }
    }
}

impl fmt::Display for AttrValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fi_info:")?;
        self.write_fields(f, 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{
        sample_offer,
        FakeKernel, //
    };
    use serde_json::json;

    fn tree(offer: &Offer) -> AttrValue {
        build(&FakeKernel::default(), offer).unwrap()
    }

    #[test]
    fn an_offer_is_printed_as_indented_groups() {
        assert_eq!(
            format!("{}\n", tree(&sample_offer())),
            include_str!("golden/block.txt")
        );
    }

    #[test]
    fn an_empty_offer_has_all_keys() {
        let lines = |offer: &Offer| -> Vec<String> {
            let text = tree(offer).to_string();
            let keys = text.lines().filter_map(|line| line.split_once(':'));
            keys.map(|(key, _)| key.to_string()).collect()
        };
        assert_eq!(lines(&Offer::default()), lines(&sample_offer()));
    }

    #[test]
    fn json_has_null_for_empty_text_and_numbers_for_sizes() {
        let offer = Offer {
            ep_max_msg_size: u64::MAX,
            ..Offer::default()
        };
        let json = serde_json::to_value(tree(&offer)).unwrap();
        assert_eq!(json["src_addr"], json!(null));
        assert_eq!(json["caps"], json!([]));
        assert_eq!(json["ep_attr"]["max_msg_size"], json!(u64::MAX));
        assert_eq!(json["fabric_attr"]["prov_version"], json!("0.0"));
    }
}
