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
const INITIAL_CAPACITY: usize = 16;

/// For how many addresses there is room at a time.
const ADDRESS_BATCH: usize = 256;

/// Who answers requests. Each struct begins with its size.
pub trait Kernel {
    fn ioctl_version(&self, version: &mut Version) -> Result<(), Errno>;

    fn ioctl_text(&self, text: &mut Text) -> Result<(), Errno>;

    /// `query.offers`, `offer_size` and `count` are made to describe `room`.
    fn ioctl_info(&self, query: &mut Query, buf: &mut [Offer]) -> Result<(), Errno>;

    fn ioctl_start(&self, test: &mut Test) -> Result<(), Errno>;

    /// `watch.buckets` and `bucket_count` are made to describe `room`.
    fn ioctl_watch(&self, watch: &mut Watch, buf: &mut [u64]) -> Result<(), Errno>;

    fn ioctl_stop(&self, stop: &mut Stop) -> Result<(), Errno>;

    /// `asked.objects`, `object_size` and `count` are made to describe `room`.
    fn ioctl_objects(&self, request: &mut Objects, buf: &mut [Object]) -> Result<(), Errno>;

    /// `asked.addresses`, `address_size` and `count` are made to describe `room`.
    fn ioctl_addresses(&self, request: &mut Addresses, buf: &mut [Address]) -> Result<(), Errno>;

    /// Version of the fabric interfaces.
    ///
    /// # Errors
    ///
    /// [`Error::OtherAbi`] where nothing else can be asked.
    fn version(&self) -> Result<u32, Error> {
        let mut version = Version {
            size: struct_size::<Version>(),
            ..Version::default()
        };
        self.ioctl_version(&mut version)
            .map_err(|errno| match errno {
                // This request is as old as the device.
                Errno::NOTTY => Error::NotKofi,
                errno => Error::from_request("to say its version", errno),
            })?;
        match version.abi {
            KOFI_ABI_VERSION => Ok(version.api),
            abi => Err(Error::AbiMismatch { abi }),
        }
    }

    /// A number in words.
    fn text(&self, kind: TextType, value: u64) -> Result<String, Error> {
        let mut text = Text {
            size: struct_size::<Text>(),
            type_: kind.0,
            value,
            ..Text::default()
        };
        self.ioctl_text(&mut text)
            .map_err(|errno| Error::from_request("to name a number", errno))?;
        Ok(abi::get_string(&text.text))
    }

    /// Everything that can be opened.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`] and [`Error::NothingFits`] rather than an empty answer.
    fn offers(&self, query: &Query) -> Result<Vec<Offer>, Error> {
        read_all(|offers| {
            let mut answer = Query {
                size: struct_size::<Query>(),
                ..*query
            };
            self.ioctl_info(&mut answer, offers)
                .map_err(|errno| match errno {
                    // There is nothing else that could stand in the way of an offer.
                    Errno::NODATA if *query == abi::match_all_query() => Error::NoDevice,
                    Errno::NODATA => Error::NoMatch,
                    errno => Error::from_request("this query", errno),
                })?;
            Ok(answer.count)
        })
    }

    /// Everything that is open.
    fn objects(&self) -> Result<Vec<Object>, Error> {
        read_all(|objects| {
            let mut request = Objects {
                size: struct_size::<Objects>(),
                ..Objects::default()
            };
            self.ioctl_objects(&mut request, objects)
                .map_err(|errno| Error::from_request("to list what is open", errno))?;
            Ok(request.count)
        })
    }

    /// At most so many addresses of an address vector.
    ///
    /// # Errors
    ///
    /// [`Error::NoObject`] and [`Error::NoVector`] where there is none.
    fn addresses(&self, id: u64, max: usize) -> Result<Vec<Address>, Error> {
        let mut addresses = Vec::new();
        let mut request = Addresses {
            size: struct_size::<Addresses>(),
            id,
            ..Addresses::default()
        };
        loop {
            let capacity = ADDRESS_BATCH.min(max - addresses.len());
            let mut batch = vec![Address::default(); capacity];
            self.ioctl_addresses(&mut request, &mut batch)
                .map_err(|errno| match errno {
                    Errno::NOENT => Error::NoObject { id },
                    Errno::INVAL => Error::NotAnAv { id },
                    errno => Error::from_request("to list addresses", errno),
                })?;
            let count = request.count as usize;
            batch.truncate(count);
            addresses.append(&mut batch);
            if count < capacity || addresses.len() == max {
                return Ok(addresses);
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
            size: struct_size::<Test>(),
            ..*test
        };
        self.ioctl_start(&mut test).map_err(|errno| match errno {
            Errno::BUSY => Error::TestRunning,
            // All else that it could refuse is refused by the options.
            Errno::INVAL => Error::InvalidTest,
            errno => Error::from_request("this test", errno),
        })
    }

    /// How the test is getting on, at its end or after `msec`, with its histogram as far as `room` goes.
    /// `None` where a signal came first.
    fn watch(&self, msec: u32, buf: &mut [u64]) -> Result<Option<Watch>, Error> {
        let mut watch = Watch {
            size: struct_size::<Watch>(),
            msec,
            ..Watch::default()
        };
        match self.ioctl_watch(&mut watch, buf) {
            Ok(()) => Ok(Some(watch)),
            Err(Errno::INTR) => Ok(None),
            Err(errno) => Err(Error::from_request("to watch a test", errno)),
        }
    }

    /// Ends the test, which is over then.
    fn stop(&self) -> Result<(), Error> {
        let mut stop = Stop {
            size: struct_size::<Stop>(),
            ..Stop::default()
        };
        self.ioctl_stop(&mut stop)
            .map_err(|errno| Error::from_request("to stop a test", errno))
    }
}

/// All that `ask` puts into the room that it is given, once there is enough; it tells how many there are.
fn read_all<T: Clone + Default>(
    mut read: impl FnMut(&mut [T]) -> Result<u32, Error>,
) -> Result<Vec<T>, Error> {
    let mut capacity = INITIAL_CAPACITY;
    // More may come between two requests.
    loop {
        let mut found = vec![T::default(); capacity];
        let count = read(&mut found)? as usize;
        if count <= capacity {
            found.truncate(count);
            return Ok(found);
        }
        capacity = count;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "structs of the interface have at most a few KiB"
)]
pub const fn struct_size<T>() -> u32 {
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
        fake::FakeKernel, //
    };

    #[test]
    fn a_device_that_does_not_know_the_first_request_is_another() {
        let kernel = FakeKernel {
            errno: Some(Errno::NOTTY),
            ..FakeKernel::default()
        };
        assert!(matches!(kernel.version(), Err(Error::NotKofi)));
    }

    #[test]
    fn another_version_of_the_interface_is_refused() {
        let kernel = FakeKernel {
            abi: KOFI_ABI_VERSION + 1,
            ..FakeKernel::default()
        };
        assert!(matches!(
            kernel.version(),
            Err(Error::AbiMismatch { abi }) if abi == KOFI_ABI_VERSION + 1
        ));
    }

    #[test]
    fn what_an_older_module_cannot_do_is_told_so() {
        for errno in [Errno::NOTTY, Errno::TOOBIG, Errno::OPNOTSUPP] {
            let kernel = FakeKernel {
                errno: Some(errno),
                ..FakeKernel::default()
            };
            let answer = kernel.offers(&Query::default());
            assert!(matches!(answer, Err(Error::ModuleTooOld)), "{errno}");
        }
    }

    #[test]
    fn a_module_without_tests_is_told_to_be_old() {
        let kernel = FakeKernel {
            errno: Some(Errno::NOTTY),
            ..FakeKernel::default()
        };
        assert!(matches!(
            kernel.start(&Test::default()),
            Err(Error::ModuleTooOld)
        ));
    }

    #[test]
    fn what_is_no_test_is_refused_in_words() {
        let error = FakeKernel::default().start(&Test::default()).unwrap_err();
        assert!(matches!(error, Error::InvalidTest), "{error}");
    }

    #[test]
    fn there_is_one_test_at_a_time() {
        let kernel = FakeKernel::default();
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
        assert!(matches!(kernel.start(&test), Err(Error::TestRunning)));
        kernel.stop().unwrap();
        kernel.start(&test).unwrap();
    }

    #[test]
    fn a_signal_is_no_error() {
        let kernel = FakeKernel {
            errno: Some(Errno::INTR),
            ..FakeKernel::default()
        };
        assert!(kernel.watch(0, &mut []).unwrap().is_none());
    }

    #[test]
    fn room_grows_until_every_offer_fits() {
        let kernel = FakeKernel::with_offers(INITIAL_CAPACITY + 4);
        // Four more come after each request.
        kernel.growths_left.set(2);
        let offers = kernel.offers(&Query::default()).unwrap();
        assert_eq!(
            *kernel.capacities.borrow(),
            [
                INITIAL_CAPACITY,
                INITIAL_CAPACITY + 4,
                INITIAL_CAPACITY + 8,
                INITIAL_CAPACITY + 12
            ]
        );
        assert_eq!(offers.len(), INITIAL_CAPACITY + 12);
        assert!(offers.iter().all(|offer| offer.ep_tx_ctx_cnt == 1));
    }

    #[test]
    fn room_grows_until_every_object_fits() {
        let one = FakeKernel::with_objects().objects.borrow()[0];
        for count in [
            0,
            INITIAL_CAPACITY - 1,
            INITIAL_CAPACITY,
            INITIAL_CAPACITY + 1,
            5 * INITIAL_CAPACITY,
        ] {
            let kernel = FakeKernel::default();
            kernel.objects.replace(vec![one; count]);
            assert_eq!(kernel.objects().unwrap().len(), count);
        }
    }

    #[test]
    fn room_is_not_taken_for_offers() {
        let kernel = FakeKernel::with_offers(3);
        assert_eq!(kernel.offers(&Query::default()).unwrap().len(), 3);
        assert_eq!(*kernel.capacities.borrow(), [INITIAL_CAPACITY]);
    }

    #[test]
    fn without_a_filter_nothing_means_no_device() {
        let kernel = FakeKernel::with_offers(0);
        let mut query = abi::match_all_query();
        assert!(matches!(kernel.offers(&query), Err(Error::NoDevice)));
        query.caps = 2;
        assert!(matches!(kernel.offers(&query), Err(Error::NoMatch)));
    }
}
