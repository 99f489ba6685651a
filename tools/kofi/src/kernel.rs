// SPDX-License-Identifier: GPL-2.0

//! Requests to the kernel, and the conversion of their results. [`Device`] or the fake kernel of
//! the unit tests executes them.
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

/// Capacity of the first request for offers or objects.
const INITIAL_CAPACITY: usize = 16;

/// Maximum number of addresses in each request.
const ADDRESS_BATCH: usize = 256;

/// Executes requests. The caller sets the `size` field of each struct.
pub trait Kernel {
    fn ioctl_version(&self, version: &mut Version) -> Result<(), Errno>;

    fn ioctl_text(&self, text: &mut Text) -> Result<(), Errno>;

    /// Sets `query.offers`, `offer_size` and `count` to describe `buf`.
    fn ioctl_info(&self, query: &mut Query, buf: &mut [Offer]) -> Result<(), Errno>;

    /// Opens the device for tests. Loads its module if the device does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::PerfNotLoaded`] if the module cannot be loaded. Other errors if its device cannot be
    /// opened.
    fn open_perf(&self) -> Result<(), Error>;

    fn ioctl_start(&self, test: &mut Test) -> Result<(), Errno>;

    /// Sets `watch.buckets` and `bucket_count` to describe `buf`.
    fn ioctl_watch(&self, watch: &mut Watch, buf: &mut [u64]) -> Result<(), Errno>;

    fn ioctl_stop(&self, stop: &mut Stop) -> Result<(), Errno>;

    /// Sets `request.objects`, `object_size` and `count` to describe `buf`.
    fn ioctl_objects(&self, request: &mut Objects, buf: &mut [Object]) -> Result<(), Errno>;

    /// Sets `request.addresses`, `address_size` and `count` to describe `buf`.
    fn ioctl_addresses(&self, request: &mut Addresses, buf: &mut [Address]) -> Result<(), Errno>;

    /// Returns the version of the fabric interfaces.
    ///
    /// # Errors
    ///
    /// [`Error::AbiMismatch`] if the module has another ABI version: no other request may be used
    /// then.
    fn version(&self) -> Result<u32, Error> {
        let mut version = Version {
            size: struct_size::<Version>(),
            ..Version::default()
        };
        self.ioctl_version(&mut version)
            .map_err(|errno| match errno {
                // Every version of the device knows this request.
                Errno::NOTTY => Error::NotKofi,
                errno => Error::from_request("read the version", errno),
            })?;
        match version.abi {
            KOFI_ABI_VERSION => Ok(version.api),
            abi => Err(Error::AbiMismatch { abi }),
        }
    }

    /// Returns the kernel's text for a number.
    fn text(&self, kind: TextType, value: u64) -> Result<String, Error> {
        let mut text = Text {
            size: struct_size::<Text>(),
            type_: kind.0,
            value,
            ..Text::default()
        };
        self.ioctl_text(&mut text)
            .map_err(|errno| Error::from_request("name a number", errno))?;
        Ok(abi::get_string(&text.text))
    }

    /// Returns the offers that match the query.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`] or [`Error::NoMatch`] if there are none.
    fn offers(&self, query: &Query) -> Result<Vec<Offer>, Error> {
        read_all(|offers| {
            let mut answer = Query {
                size: struct_size::<Query>(),
                ..*query
            };
            self.ioctl_info(&mut answer, offers)
                .map_err(|errno| match errno {
                    // A query that every offer matches finds none only if there is no device.
                    Errno::NODATA if *query == abi::match_all_query() => Error::NoDevice,
                    Errno::NODATA => Error::NoMatch,
                    errno => Error::from_request("list offers", errno),
                })?;
            Ok(answer.count)
        })
    }

    /// Returns all open objects.
    fn objects(&self) -> Result<Vec<Object>, Error> {
        read_all(|objects| {
            let mut request = Objects {
                size: struct_size::<Objects>(),
                ..Objects::default()
            };
            self.ioctl_objects(&mut request, objects)
                .map_err(|errno| Error::from_request("list objects", errno))?;
            Ok(request.count)
        })
    }

    /// Returns at most `max` addresses of an address vector.
    ///
    /// # Errors
    ///
    /// [`Error::NoObject`] if no object has this id, [`Error::NotAnAv`] if the object is not an
    /// address vector.
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
                    errno => Error::from_request("list addresses", errno),
                })?;
            let count = request.count as usize;
            batch.truncate(count);
            addresses.append(&mut batch);
            if count < capacity || addresses.len() == max {
                return Ok(addresses);
            }
        }
    }

    /// Starts a test.
    ///
    /// # Errors
    ///
    /// Fails if a test is running or the parameters are invalid. [`Kernel::watch`] reports later
    /// errors.
    fn start(&self, test: &Test) -> Result<(), Error> {
        self.open_perf()?;
        let mut test = Test {
            size: struct_size::<Test>(),
            ..*test
        };
        self.ioctl_start(&mut test).map_err(|errno| match errno {
            Errno::BUSY => Error::TestRunning,
            // The command line parser has checked all parameters but the combination of type and
            // operation.
            Errno::INVAL => Error::InvalidTest,
            errno => Error::from_request("start a test", errno),
        })
    }

    /// Waits until the test is over, for at most `msec`, and returns its state. Writes the
    /// histogram to `buf`. Returns `None` if a signal interrupted the wait.
    fn watch(&self, msec: u32, buf: &mut [u64]) -> Result<Option<Watch>, Error> {
        let mut watch = Watch {
            size: struct_size::<Watch>(),
            msec,
            ..Watch::default()
        };
        match self.ioctl_watch(&mut watch, buf) {
            Ok(()) => Ok(Some(watch)),
            Err(Errno::INTR) => Ok(None),
            Err(errno) => Err(Error::from_request("watch a test", errno)),
        }
    }

    /// Stops the test. The test is over when this returns.
    fn stop(&self) -> Result<(), Error> {
        let mut stop = Stop {
            size: struct_size::<Stop>(),
            ..Stop::default()
        };
        self.ioctl_stop(&mut stop)
            .map_err(|errno| Error::from_request("stop a test", errno))
    }
}

/// Returns all items that `read` finds. `read` fills the slice as far as it goes, and returns the
/// number of items that exist.
fn read_all<T: Clone + Default>(
    mut read: impl FnMut(&mut [T]) -> Result<u32, Error>,
) -> Result<Vec<T>, Error> {
    let mut capacity = INITIAL_CAPACITY;
    // The number of items may grow between two requests.
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
    fn a_device_without_the_version_request_is_not_kofi() {
        let kernel = FakeKernel {
            errno: Some(Errno::NOTTY),
            ..FakeKernel::default()
        };
        assert!(matches!(kernel.version(), Err(Error::NotKofi)));
    }

    #[test]
    fn another_abi_version_is_rejected() {
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
    fn errnos_of_an_older_module_are_reported_as_such() {
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
    fn a_module_without_tests_is_reported_as_too_old() {
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
    fn an_invalid_test_is_rejected() {
        let error = FakeKernel::default().start(&Test::default()).unwrap_err();
        assert!(matches!(error, Error::InvalidTest), "{error}");
    }

    #[test]
    fn only_one_test_runs_at_a_time() {
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
    fn a_signal_is_not_an_error() {
        let kernel = FakeKernel {
            errno: Some(Errno::INTR),
            ..FakeKernel::default()
        };
        assert!(kernel.watch(0, &mut []).unwrap().is_none());
    }

    #[test]
    fn the_buffer_grows_until_every_offer_fits() {
        let kernel = FakeKernel::with_offers(INITIAL_CAPACITY + 4);
        // Four offers appear after each of the first two requests.
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
    fn the_buffer_grows_until_every_object_fits() {
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
    fn unused_capacity_is_not_returned_as_offers() {
        let kernel = FakeKernel::with_offers(3);
        assert_eq!(kernel.offers(&Query::default()).unwrap().len(), 3);
        assert_eq!(*kernel.capacities.borrow(), [INITIAL_CAPACITY]);
    }

    #[test]
    fn no_offers_without_a_filter_mean_no_device() {
        let kernel = FakeKernel::with_offers(0);
        let mut query = abi::match_all_query();
        assert!(matches!(kernel.offers(&query), Err(Error::NoDevice)));
        query.caps = 2;
        assert!(matches!(kernel.offers(&query), Err(Error::NoMatch)));
    }
}
