// SPDX-License-Identifier: GPL-2.0

//! Names of flags and enumerations. The kernel has the names: a request for each number finds those
//! that exist.

use crate::{
    abi::TextType,
    error::Error,
    kernel::Kernel, //
};

/// Prefix of every name. Other texts of the kernel for a number do not have it.
const PREFIX: &str = "FI_";

/// Number of values that are looked up in an enumeration. Provider-specific values are far beyond
/// and have no names.
const VALUE_COUNT: u64 = 64;

/// Names of the numbers of one type.
pub struct Names {
    entries: Vec<(u64, String)>,
    /// Length of the common prefix of all names, in whole words.
    prefix_len: usize,
}

impl Names {
    /// Reads the names of the single bits of a flags type.
    pub fn read_flags(kernel: &dyn Kernel, kind: TextType) -> Result<Self, Error> {
        Self::read(kernel, kind, (0..u64::BITS).map(|bit| 1 << bit))
    }

    /// Reads the names of the values of an enumeration.
    pub fn read_values(kernel: &dyn Kernel, kind: TextType) -> Result<Self, Error> {
        Self::read(kernel, kind, 0..VALUE_COUNT)
    }

    fn read(
        kernel: &dyn Kernel,
        kind: TextType,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<Self, Error> {
        let mut entries = Vec::new();
        for number in numbers {
            let name = kernel.text(kind, number)?;
            if name.starts_with(PREFIX) {
                entries.push((number, name));
            }
        }
        let prefix_len = common_prefix_len(entries.iter().map(|(_, name)| name.as_str()));
        Ok(Self {
            entries,
            prefix_len,
        })
    }

    /// Returns the number of a name. Case does not matter, and the common prefix may be omitted.
    pub fn find(&self, option: &'static str, name: &str) -> Result<u64, Error> {
        let upper = name.to_ascii_uppercase();
        let matches = |known: &str| {
            known == upper
                || known.strip_prefix(PREFIX) == Some(&upper)
                || known.get(self.prefix_len..) == Some(&upper)
        };
        match self.entries.iter().find(|(_, name)| matches(name)) {
            Some(&(number, _)) => Ok(number),
            None => Err(Error::UnknownName {
                option,
                name: name.to_string(),
                known: self.joined(),
            }),
        }
    }

    /// Returns the number of a name in an enumeration, whose values have 32 bits.
    pub fn find_value(&self, option: &'static str, name: &str) -> Result<u32, Error> {
        let number = self.find(option, name)?;
        u32::try_from(number).map_err(|_| Error::OutOfRange { option })
    }

    fn joined(&self) -> String {
        let all: Vec<_> = self
            .entries
            .iter()
            .map(|(_, name)| self.short(name))
            .collect();
        all.join(", ")
    }

    /// Returns the short name of a number, or the number itself if it has no name.
    pub fn name(&self, number: u64) -> String {
        let known = self.entries.iter().find(|(known, _)| *known == number);
        known.map_or_else(|| number.to_string(), |(_, name)| self.short(name))
    }

    /// Returns a name in lower case without the common prefix. Returns other text unchanged.
    pub fn short(&self, name: &str) -> String {
        match name.get(self.prefix_len..) {
            Some(rest) if name.starts_with(PREFIX) => rest.to_ascii_lowercase(),
            _ => name.to_string(),
        }
    }
}

/// Returns the length of the longest common prefix that ends with an underscore.
fn common_prefix_len<'a>(mut names: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = names.next() else {
        return 0;
    };
    let same = names.fold(first.len(), |same, name| {
        let pairs = first.bytes().zip(name.bytes()).take(same);
        pairs.take_while(|(a, b)| a == b).count()
    });
    first[..same].rfind('_').map_or(0, |at| at + 1)
}

/// Parses a list of flags that are separated by commas, or by bars as for `fi_info`. An empty list
/// has no flags.
pub fn parse_flags(
    kernel: &dyn Kernel,
    kind: TextType,
    option: &'static str,
    list: &str,
) -> Result<u64, Error> {
    let names = Names::read_flags(kernel, kind)?;
    let listed = list.split([',', '|']).map(str::trim);
    listed
        .filter(|name| !name.is_empty())
        .try_fold(0, |flags, name| Ok(flags | names.find(option, name)?))
}

/// Parses the name of an enumeration value.
pub fn parse_value(
    kernel: &dyn Kernel,
    kind: TextType,
    option: &'static str,
    name: &str,
) -> Result<u32, Error> {
    Names::read_values(kernel, kind)?.find_value(option, name.trim())
}

/// Parses a list of texts that are separated by commas. Each must be the kernel's text for a number
/// of this type.
pub fn parse_texts(
    kernel: &dyn Kernel,
    kind: TextType,
    option: &'static str,
    list: &str,
) -> Result<Vec<String>, Error> {
    let mut known = Vec::new();
    for number in 0..VALUE_COUNT {
        known.push(kernel.text(kind, number)?);
    }
    // The kernel's text for an unknown number contains a space: `unknown (0x20)`.
    known.retain(|text| !text.contains(' '));
    let listed = list.split(',').map(str::trim);
    listed
        .filter(|text| !text.is_empty())
        .map(|text| {
            let found = known.iter().find(|known| *known == text);
            found.cloned().ok_or_else(|| Error::UnknownName {
                option,
                name: text.to_string(),
                known: known.join(", "),
            })
        })
        .collect()
}

/// Returns the names of the flags that are set. Bits without a name form one number at the end.
pub fn flag_names(kernel: &dyn Kernel, kind: TextType, flags: u64) -> Result<Vec<String>, Error> {
    let text = kernel.text(kind, flags)?;
    let names = text.split(", ").filter(|name| !name.is_empty());
    Ok(names.map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    const CAPS: TextType = TextType::KOFI_TEXT_CAPS;
    const EP_TYPE: TextType = TextType::KOFI_TEXT_EP_TYPE;

    fn caps(list: &str) -> Result<u64, Error> {
        parse_flags(&FakeKernel::default(), CAPS, "--caps", list)
    }

    fn ep_type(name: &str) -> Result<u32, Error> {
        parse_value(&FakeKernel::default(), EP_TYPE, "--ep-type", name)
    }

    #[test]
    fn flags_are_parsed_in_any_case_with_or_without_prefix() {
        for list in [
            "msg,rma,remote_read",
            "FI_MSG,FI_RMA,FI_REMOTE_READ",
            "Msg, fi_rma , REMOTE_READ, msg",
            "FI_MSG|FI_RMA|FI_REMOTE_READ",
        ] {
            assert_eq!(caps(list).unwrap(), 1 << 1 | 1 << 2 | 1 << 12, "{list}");
        }
    }

    #[test]
    fn an_empty_list_has_no_flags() {
        assert_eq!(caps("").unwrap(), 0);
        assert_eq!(caps(" , ").unwrap(), 0);
    }

    #[test]
    fn the_highest_bit_is_found_by_name() {
        let kernel = FakeKernel::default();
        let names = Names::read_flags(&kernel, TextType::KOFI_TEXT_MODE).unwrap();
        assert_eq!(names.find("--mode", "context").unwrap(), 1 << 59);
        assert_eq!(names.find("--mode", "own").unwrap(), 1 << 63);
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_known_ones() {
        let error = ep_type("stream").unwrap_err().to_string();
        assert_eq!(
            error,
            "--ep-type: no `stream`; there are: unspec, msg, dgram, rdm"
        );
        assert!(
            matches!(caps("msg,nothing"), Err(Error::UnknownName { name, .. }) if name == "nothing")
        );
    }

    #[test]
    fn a_number_is_not_accepted_as_a_name() {
        // The kernel's text for an unknown bit or value is not a name.
        assert!(caps("0x1").is_err());
        assert!(ep_type("unknown (0x4)").is_err());
    }

    #[test]
    fn values_are_parsed_without_the_common_prefix() {
        for name in ["msg", "ep_msg", "FI_EP_MSG"] {
            assert_eq!(ep_type(name).unwrap(), 1, "{name}");
        }
    }

    #[test]
    fn the_common_prefix_ends_with_a_whole_word() {
        assert_eq!(common_prefix_len(["FI_EP_MSG", "FI_EP_MSX"].into_iter()), 6);
        assert_eq!(common_prefix_len(["FI_MSG", "FI_MULTICAST"].into_iter()), 3);
        assert_eq!(common_prefix_len(["FI_MR_LOCAL"].into_iter()), 6);
        assert_eq!(common_prefix_len(std::iter::empty()), 0);
    }

    #[test]
    fn unnamed_flags_form_one_number() {
        let kernel = FakeKernel::default();
        let names = flag_names(&kernel, CAPS, 0x3).unwrap();
        assert_eq!(names, ["FI_MSG", "0x1"]);
        assert!(flag_names(&kernel, CAPS, 0).unwrap().is_empty());
    }
}
