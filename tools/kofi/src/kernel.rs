// SPDX-License-Identifier: GPL-2.0

//! Requests: what is asked, and what is made of the answers. Who answers is [`Device`] or a test's fake.
//!
//! [`Device`]: crate::device::Device

use crate::{
    abi::{
        self,
        Address,
        Addresses,
        Object,
        Objects,
        Offer,
        Query,
        Stop,
        Test,
        Text,
        TextType,
        Version,
        Watch,
        KOFI_ABI_VERSION, //
    },
    error::Error,
};
use rustix::io::Errno;

/// For how many offers, or objects, there is room at first.
const ROOM: usize = 16;

/// For how many addresses there is room at a time.
const ADDRESSES: usize = 256;

/// Who answers requests. Each struct begins with its size.
pub trait Kernel {
    fn answer_version(&self, version: &mut Version) -> Result<(), Errno>;

    fn answer_text(&self, text: &mut Text) -> Result<(), Errno>;

    /// `query.offers`, `offer_size` and `count` are made to describe `room`.
    fn answer_info(&self, query: &mut Query, room: &mut [Offer]) -> Result<(), Errno>;

    fn answer_start(&self, test: &mut Test) -> Result<(), Errno>;

    /// `watch.buckets` and `bucket_count` are made to describe `room`.
    fn answer_watch(&self, watch: &mut Watch, room: &mut [u64]) -> Result<(), Errno>;

    fn answer_stop(&self, stop: &mut Stop) -> Result<(), Errno>;

    /// `asked.objects`, `object_size` and `count` are made to describe `room`.
    fn answer_objects(&self, asked: &mut Objects, room: &mut [Object]) -> Result<(), Errno>;

    /// `asked.addresses`, `address_size` and `count` are made to describe `room`.
    fn answer_addresses(&self, asked: &mut Addresses, room: &mut [Address]) -> Result<(), Errno>;

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
        all(|offers| {
            let mut answer = Query {
                size: size::<Query>(),
                ..*query
            };
            self.answer_info(&mut answer, offers)
                .map_err(|errno| match errno {
                    // There is nothing else that could stand in the way of an offer.
                    Errno::NODATA if *query == abi::anything() => Error::NoDevice,
                    Errno::NODATA => Error::NothingFits,
                    errno => Error::of_request("this query", errno),
                })?;
            Ok(answer.count)
        })
    }

    /// Everything that is open.
    fn objects(&self) -> Result<Vec<Object>, Error> {
        all(|objects| {
            let mut asked = Objects {
                size: size::<Objects>(),
                ..Objects::default()
            };
            self.answer_objects(&mut asked, objects)
                .map_err(|errno| Error::of_request("to list what is open", errno))?;
            Ok(asked.count)
        })
    }

    /// At most so many addresses of an address vector.
    ///
    /// # Errors
    ///
    /// [`Error::NoObject`] and [`Error::NoVector`] where there is none.
    fn addresses(&self, id: u64, most: usize) -> Result<Vec<Address>, Error> {
        let mut all = Vec::new();
        let mut asked = Addresses {
            size: size::<Addresses>(),
            id,
            ..Addresses::default()
        };
        loop {
            let room = ADDRESSES.min(most - all.len());
            let mut addresses = vec![Address::default(); room];
            self.answer_addresses(&mut asked, &mut addresses)
                .map_err(|errno| match errno {
                    Errno::NOENT => Error::NoObject { id },
                    Errno::INVAL => Error::NoVector { id },
                    errno => Error::of_request("to list addresses", errno),
                })?;
            let count = asked.count as usize;
            addresses.truncate(count);
            all.append(&mut addresses);
            if count < room || all.len() == most {
                return Ok(all);
            }
        }
    }

    /// Begins a test.
    ///
    /// # Errors
    ///
    /// Where it cannot be one. What goes wrong with it later is for [`Kernel::watch`].
    fn start(&self, test: &Test) -> Result<(), Error> {
        let mut test = Test {
            size: size::<Test>(),
            ..*test
        };
        self.answer_start(&mut test).map_err(|errno| match errno {
            Errno::BUSY => Error::Busy,
            // All else that it could refuse is refused by the options.
            Errno::INVAL => Error::NoSuchTest,
            errno => Error::of_request("this test", errno),
        })
    }

    /// How the test is getting on, at its end or after `msec`, with its histogram as far as `room` goes.
    /// `None` where a signal came first.
    fn watch(&self, msec: u32, room: &mut [u64]) -> Result<Option<Watch>, Error> {
        let mut watch = Watch {
            size: size::<Watch>(),
            msec,
            ..Watch::default()
        };
        match self.answer_watch(&mut watch, room) {
            Ok(()) => Ok(Some(watch)),
            Err(Errno::INTR) => Ok(None),
            Err(errno) => Err(Error::of_request("to watch a test", errno)),
        }
    }

    /// Ends the test, which is over then.
    fn stop(&self) -> Result<(), Error> {
        let mut stop = Stop {
            size: size::<Stop>(),
            ..Stop::default()
        };
        self.answer_stop(&mut stop)
            .map_err(|errno| Error::of_request("to stop a test", errno))
    }
}

/// All that `ask` puts into the room that it is given, once there is enough; it tells how many there are.
fn all<T: Clone + Default>(
    mut ask: impl FnMut(&mut [T]) -> Result<u32, Error>,
) -> Result<Vec<T>, Error> {
    let mut room = ROOM;
    // More may come between two requests.
    loop {
        let mut found = vec![T::default(); room];
        let count = ask(&mut found)? as usize;
        if count <= room {
            found.truncate(count);
            return Ok(found);
        }
        room = count;
    }
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
    use crate::{
        abi::{
            set_string,
            TestKind, //
        },
        fake::Fake, //
    };

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
    fn a_module_without_tests_is_told_to_be_old() {
        let kernel = Fake {
            refusal: Some(Errno::NOTTY),
            ..Fake::default()
        };
        assert!(matches!(
            kernel.start(&Test::default()),
            Err(Error::OldModule)
        ));
    }

    #[test]
    fn what_is_no_test_is_refused_in_words() {
        let error = Fake::default().start(&Test::default()).unwrap_err();
        assert!(matches!(error, Error::NoSuchTest), "{error}");
    }

    #[test]
    fn there_is_one_test_at_a_time() {
        let kernel = Fake::default();
        let mut test = Test {
            kind: TestKind::KOFI_TEST_PINGPONG.0,
            length: 1,
            count: 1,
            ..Test::default()
        };
        set_string(&mut test.node, "10.0.0.1", "").unwrap();
        set_string(&mut test.service, "7471", "").unwrap();
        assert!(kernel.stop().is_err());
        kernel.start(&test).unwrap();
        assert!(matches!(kernel.start(&test), Err(Error::Busy)));
        kernel.stop().unwrap();
        kernel.start(&test).unwrap();
    }

    #[test]
    fn a_signal_is_no_error() {
        let kernel = Fake {
            refusal: Some(Errno::INTR),
            ..Fake::default()
        };
        assert!(kernel.watch(0, &mut []).unwrap().is_none());
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
    fn room_grows_until_every_object_fits() {
        let one = Fake::with_objects().objects.borrow()[0];
        for count in [0, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM] {
            let kernel = Fake::default();
            kernel.objects.replace(vec![one; count]);
            assert_eq!(kernel.objects().unwrap().len(), count);
        }
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
        let mut query = abi::anything();
        assert!(matches!(kernel.offers(&query), Err(Error::NoDevice)));
        query.caps = 2;
        assert!(matches!(kernel.offers(&query), Err(Error::NothingFits)));
    }
}
