// SPDX-License-Identifier: GPL-2.0

//! Requests: what is asked, and what is made of the answers. Who answers is [`Device`] or a test's fake.
//!
//! [`Device`]: crate::device::Device

use crate::{
    abi::{
        self,
        Offer,
        Query,
        Text,
        TextType,
        Version,
        KOFI_ABI_VERSION, //
    },
    error::Error,
};
use rustix::io::Errno;

/// For how many offers there is room at first.
const ROOM: usize = 16;

/// Who answers requests. Each struct begins with its size.
pub trait Kernel {
    fn answer_version(&self, version: &mut Version) -> Result<(), Errno>;

    fn answer_text(&self, text: &mut Text) -> Result<(), Errno>;

    /// `query.offers`, `offer_size` and `count` are made to describe `room`.
    fn answer_info(&self, query: &mut Query, room: &mut [Offer]) -> Result<(), Errno>;

    /// Version of the fabric interfaces.
    ///
    /// # Errors
    ///
    /// [`Error::OtherAbi`] where nothing else can be asked.
    fn version(&self) -> Result<u32, Error> {
        let mut version = Version {
            size: size::<Version>(),
            ..Version::default()
        };
        self.answer_version(&mut version)
            .map_err(|errno| match errno {
                // This request is as old as the device.
                Errno::NOTTY => Error::NotKofi,
                errno => Error::of_request("to say its version", errno),
            })?;
        match version.abi {
            KOFI_ABI_VERSION => Ok(version.api),
            abi => Err(Error::OtherAbi { abi }),
        }
    }

    /// A number in words.
    fn text(&self, kind: TextType, value: u64) -> Result<String, Error> {
        let mut text = Text {
            size: size::<Text>(),
            type_: kind.0,
            value,
            ..Text::default()
        };
        self.answer_text(&mut text)
            .map_err(|errno| Error::of_request("to name a number", errno))?;
        Ok(abi::string(&text.text))
    }

    /// Everything that can be opened.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`] and [`Error::NothingFits`] rather than an empty answer.
    fn offers(&self, query: &Query) -> Result<Vec<Offer>, Error> {
        let mut room = ROOM;
        // Devices may come between two requests.
        loop {
            let mut offers = vec![Offer::default(); room];
            let mut answer = Query {
                size: size::<Query>(),
                ..*query
            };
            self.answer_info(&mut answer, &mut offers)
                .map_err(|errno| match errno {
                    Errno::NODATA if asks_for_anything(query) => Error::NoDevice,
                    Errno::NODATA => Error::NothingFits,
                    errno => Error::of_request("this query", errno),
                })?;
            let count = answer.count as usize;
            if count <= room {
                offers.truncate(count);
                return Ok(offers);
            }
            room = count;
        }
    }
}

/// Whether only what a device requires of its user can stand in the way of an offer.
fn asks_for_anything(query: &Query) -> bool {
    let anything = Query {
        mode: u64::MAX,
        ..Query::default()
    };
    *query == anything
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "structs of the interface have at most some kilobytes"
)]
pub const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn a_device_that_does_not_know_the_first_request_is_another() {
        let kernel = Fake {
            refusal: Some(Errno::NOTTY),
            ..Fake::default()
        };
        assert!(matches!(kernel.version(), Err(Error::NotKofi)));
    }

    #[test]
    fn another_version_of_the_interface_is_refused() {
        let kernel = Fake {
            abi: KOFI_ABI_VERSION + 1,
            ..Fake::default()
        };
        assert!(matches!(
            kernel.version(),
            Err(Error::OtherAbi { abi }) if abi == KOFI_ABI_VERSION + 1
        ));
    }

    #[test]
    fn what_an_older_module_cannot_do_is_told_so() {
        for errno in [Errno::NOTTY, Errno::TOOBIG, Errno::OPNOTSUPP] {
            let kernel = Fake {
                refusal: Some(errno),
                ..Fake::default()
            };
            let answer = kernel.offers(&Query::default());
            assert!(matches!(answer, Err(Error::OldModule)), "{errno}");
        }
    }

    #[test]
    fn room_grows_until_every_offer_fits() {
        let kernel = Fake::with_offers(ROOM + 4);
        // Four more come after each request.
        kernel.coming.set(2);
        let offers = kernel.offers(&Query::default()).unwrap();
        assert_eq!(
            *kernel.rooms.borrow(),
            [ROOM, ROOM + 4, ROOM + 8, ROOM + 12]
        );
        assert_eq!(offers.len(), ROOM + 12);
        assert!(offers.iter().all(|offer| offer.ep_tx_ctx_cnt == 1));
    }

    #[test]
    fn room_is_not_taken_for_offers() {
        let kernel = Fake::with_offers(3);
        assert_eq!(kernel.offers(&Query::default()).unwrap().len(), 3);
        assert_eq!(*kernel.rooms.borrow(), [ROOM]);
    }

    #[test]
    fn without_a_filter_nothing_means_no_device() {
        let kernel = Fake::with_offers(0);
        let mut query = Query {
            mode: u64::MAX,
            ..Query::default()
        };
        assert!(matches!(kernel.offers(&query), Err(Error::NoDevice)));
        query.caps = 2;
        assert!(matches!(kernel.offers(&query), Err(Error::NothingFits)));
    }
}
