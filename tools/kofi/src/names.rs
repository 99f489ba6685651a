// SPDX-License-Identifier: GPL-2.0

//! Names of flags and enumerations. The kernel has them: which there are is found by asking for each
//! number.

use crate::{
    abi::TextType,
    error::Error,
    kernel::Kernel, //
};

/// What every name begins with, and no other text of the kernel's for a number.
const PREFIX: &str = "FI_";

/// Values of an enumeration that are asked for. Those of a provider's own, far beyond, have no names.
const VALUES: u64 = 64;

/// Numbers that have a name.
pub struct Names {
    named: Vec<(u64, String)>,
    /// Bytes that all names begin with, as far as they are whole words.
    shared: usize,
}

impl Names {
    /// The single bits of a type with flags.
    pub fn of_flags(kernel: &dyn Kernel, kind: TextType) -> Result<Self, Error> {
        Self::of(kernel, kind, (0..u64::BITS).map(|bit| 1 << bit))
    }

    /// The values of an enumeration.
    pub fn of_values(kernel: &dyn Kernel, kind: TextType) -> Result<Self, Error> {
        Self::of(kernel, kind, 0..VALUES)
    }

    fn of(
        kernel: &dyn Kernel,
        kind: TextType,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<Self, Error> {
        let mut named = Vec::new();
        for number in numbers {
            let name = kernel.text(kind, number)?;
            if name.starts_with(PREFIX) {
                named.push((number, name));
            }
        }
        let shared = shared(named.iter().map(|(_, name)| name.as_str()));
        Ok(Self { named, shared })
    }

    /// The number of a name, in any case, with or without what all names begin with.
    pub fn find(&self, option: &'static str, word: &str) -> Result<u64, Error> {
        let upper = word.to_ascii_uppercase();
        let is_named = |name: &str| {
            name == upper
                || name.strip_prefix(PREFIX) == Some(&upper)
                || name.get(self.shared..) == Some(&upper)
        };
        match self.named.iter().find(|(_, name)| is_named(name)) {
            Some(&(number, _)) => Ok(number),
            None => Err(Error::UnknownName {
                option,
                word: word.to_string(),
                known: self.list(),
            }),
        }
    }

    /// The same of an enumeration, whose values have 32 bits.
    pub fn find_value(&self, option: &'static str, word: &str) -> Result<u32, Error> {
        let number = self.find(option, word)?;
        u32::try_from(number).map_err(|_| Error::OutOfRange { option })
    }

    fn list(&self) -> String {
        let all: Vec<_> = self
            .named
            .iter()
            .map(|(_, name)| self.short(name))
            .collect();
        all.join(", ")
    }

    /// The name of a number as it is typed; one without a name as it is.
    pub fn name(&self, number: u64) -> String {
        let known = self.named.iter().find(|(known, _)| *known == number);
        known.map_or_else(|| number.to_string(), |(_, name)| self.short(name))
    }

    /// A name as it is typed: without what all begin with. Other text stays as it is.
    pub fn short(&self, name: &str) -> String {
        match name.get(self.shared..) {
            Some(rest) if name.starts_with(PREFIX) => rest.to_ascii_lowercase(),
            _ => name.to_string(),
        }
    }
}

/// Bytes up to the last underscore of what all names begin with.
fn shared<'a>(mut names: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = names.next() else {
        return 0;
    };
    let same = names.fold(first.len(), |most, name| {
        let pairs = first.bytes().zip(name.bytes()).take(most);
        pairs.take_while(|(a, b)| a == b).count()
    });
    first[..same].rfind('_').map_or(0, |at| at + 1)
}

/// The flags in a list with commas, or with bars as `fi_info` takes it. An empty one has none.
pub fn parse_flags(
    kernel: &dyn Kernel,
    kind: TextType,
    option: &'static str,
    list: &str,
) -> Result<u64, Error> {
    let names = Names::of_flags(kernel, kind)?;
    let words = list.split([',', '|']).map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .try_fold(0, |flags, word| Ok(flags | names.find(option, word)?))
}

/// The number of an enumeration's name.
pub fn parse_value(
    kernel: &dyn Kernel,
    kind: TextType,
    option: &'static str,
    word: &str,
) -> Result<u32, Error> {
    Names::of_values(kernel, kind)?.find_value(option, word.trim())
}

/// The words in a list with commas, each of which the kernel has for a number of that type.
pub fn words(
    kernel: &dyn Kernel,
    kind: TextType,
    option: &'static str,
    list: &str,
) -> Result<Vec<String>, Error> {
    let mut known = Vec::new();
    for number in 0..VALUES {
        known.push(kernel.text(kind, number)?);
    }
    // The kernel's words for a number that has none: `unknown (0x20)`.
    known.retain(|word| !word.contains(' '));
    let asked = list.split(',').map(str::trim);
    asked
        .filter(|word| !word.is_empty())
        .map(|word| {
            let found = known.iter().find(|known| *known == word);
            found.cloned().ok_or_else(|| Error::UnknownName {
                option,
                word: word.to_string(),
                known: known.join(", "),
            })
        })
        .collect()
}

/// The names of the flags that are set; bits without a name stand together in one number.
pub fn flags(kernel: &dyn Kernel, kind: TextType, flags: u64) -> Result<Vec<String>, Error> {
    let text = kernel.text(kind, flags)?;
    let words = text.split(", ").filter(|word| !word.is_empty());
    Ok(words.map(str::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const CAPS: TextType = TextType::KOFI_TEXT_CAPS;
    const EP_TYPE: TextType = TextType::KOFI_TEXT_EP_TYPE;

    fn caps(list: &str) -> Result<u64, Error> {
        parse_flags(&Fake::default(), CAPS, "--caps", list)
    }

    fn ep_type(word: &str) -> Result<u32, Error> {
        parse_value(&Fake::default(), EP_TYPE, "--ep-type", word)
    }

    #[test]
    fn flags_are_named_in_any_case_and_with_or_without_their_prefix() {
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
    fn the_highest_bit_has_a_name_like_any_other() {
        let kernel = Fake::default();
        let names = Names::of_flags(&kernel, TextType::KOFI_TEXT_MODE).unwrap();
        assert_eq!(names.find("--mode", "context").unwrap(), 1 << 59);
        assert_eq!(names.find("--mode", "own").unwrap(), 1 << 63);
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_there_are() {
        let error = ep_type("stream").unwrap_err().to_string();
        assert_eq!(
            error,
            "--ep-type: no `stream`; there are: unspec, msg, dgram, rdm"
        );
        assert!(
            matches!(caps("msg,nothing"), Err(Error::UnknownName { word, .. }) if word == "nothing")
        );
    }

    #[test]
    fn a_number_is_not_a_name() {
        // The kernel's words for bits and values that have none.
        assert!(caps("0x1").is_err());
        assert!(ep_type("unknown (0x4)").is_err());
    }

    #[test]
    fn values_are_named_without_what_all_begin_with() {
        for word in ["msg", "ep_msg", "FI_EP_MSG"] {
            assert_eq!(ep_type(word).unwrap(), 1, "{word}");
        }
    }

    #[test]
    fn only_whole_words_are_shared() {
        assert_eq!(shared(["FI_EP_MSG", "FI_EP_MSX"].into_iter()), 6);
        assert_eq!(shared(["FI_MSG", "FI_MULTICAST"].into_iter()), 3);
        assert_eq!(shared(["FI_MR_LOCAL"].into_iter()), 6);
        assert_eq!(shared(std::iter::empty()), 0);
    }

    #[test]
    fn flags_without_a_name_stand_as_a_number() {
        let kernel = Fake::default();
        let words = flags(&kernel, CAPS, 0x3).unwrap();
        assert_eq!(words, ["FI_MSG", "0x1"]);
        assert!(flags(&kernel, CAPS, 0).unwrap().is_empty());
    }
}
