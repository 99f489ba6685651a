// SPDX-License-Identifier: GPL-2.0

//! Tests that drop the last handle of an object in atomic context, for all objects that can be opened without
//! a device.

use super::{
    av,
    cntr,
    domain::Domain,
    dummy_provider::{
        counted_fabric,
        CloseCounter,
        HERE, //
    },
    eq,
    fabric::Fabric,
    memory::Buffer,
    msg::{
        RemoteAccess,
        RemoteBuffer, //
    }, //
};
use crate::{
    abi::{
        info::Info,
        Errno,
        Result, //
    },
    introspect::object_table,
    util::{
        context::{
            may_sleep,
            InterruptContext,
            ProcessContext, //
        },
        irq_work::{
            InterruptHandler,
            IrqWork, //
        },
        lock::FastLockIrq,
        thread::Thread, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            AtomicFlag,
            Release, //
        },
        static_lock_class,
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};

/// Drops a value in a hard interrupt.
#[pin_data]
struct Dropper<T> {
    #[pin]
    value: FastLockIrq<Option<T>>,
    done: AtomicFlag,
}

impl<T: Send + Unpin> InterruptHandler for Arc<Dropper<T>> {
    fn handle(&self, _here: &InterruptContext) {
        let what = self.value.lock().take();
        drop(what);
        self.done.store(true, Release);
    }
}

fn dropper<T>(value: T) -> Result<Arc<Dropper<T>>> {
    Ok(Arc::pin_init(
        pin_init!(Dropper {
            value <- FastLockIrq::new(Some(value), c"kofi::Dropper", static_lock_class!()),
            done: AtomicFlag::new(false),
        }),
        GFP_KERNEL,
    )?)
}

fn eventually(is_so: impl Fn() -> bool) -> Result {
    for _ in 0..10_000 {
        if is_so() {
            return Ok(());
        }
        fsleep(Delta::from_millis(1));
    }
    Err(Errno::ETIMEDOUT)
}

fn drop_in_interrupt<T: Send + Unpin + 'static>(what: T) -> Result {
    let dropper = dropper(what)?;
    let work = IrqWork::new(KBox::new(dropper.clone(), GFP_KERNEL)?)?;
    work.queue();
    eventually(|| dropper.done.load(Acquire))
}

/// Number of fabrics that closed in process context, and in atomic context.
type CloseCounts = (u32, u32);

/// One fabric closed in process context.
const CLOSED_IN_PROCESS: CloseCounts = (1, 0);

/// Returns true if an object with this number or a later one is in the object table.
fn is_listed(number: u64) -> Result<bool> {
    let mut batch = KVec::with_capacity(1, GFP_KERNEL)?;
    let _ = object_table::read_objects(number - 1, None, &mut batch);
    Ok(!batch.is_empty())
}

/// Opens an object that holds the last references to a fabric of its own, and drops it with `drop_it`. Waits
/// until the fabric has closed, and then until all objects have left the object table, which is the last step
/// of a close.
#[inline(never)]
fn drop_last<T>(
    open: impl FnOnce(&Arc<Fabric>, &Arc<Domain>) -> Result<T>,
    drop_it: impl FnOnce(T) -> Result,
) -> Result<CloseCounts> {
    let witness = CloseCounter::new()?;
    let fabric = counted_fabric(&witness)?;
    let first = fabric.entry().number();
    let domain = fabric.domain(HERE, &*Info::new()?)?;
    let what = open(&fabric, &domain)?;
    drop((domain, fabric));
    if witness.closes() != (0, 0) {
        return Err(Errno::EOTHER);
    }
    drop_it(what)?;
    eventually(|| witness.closes() != (0, 0))?;
    eventually(|| is_listed(first).is_ok_and(|is_so| !is_so))?;
    Ok(witness.closes())
}

fn in_interrupt<T: Send + Unpin + 'static>(
    open: impl FnOnce(&Arc<Fabric>, &Arc<Domain>) -> Result<T>,
) -> Result<CloseCounts> {
    drop_last(open, drop_in_interrupt)
}

/// Opens a named vector with asynchronous insertions and an event queue.
fn vector(fabric: &Arc<Fabric>, domain: &Arc<Domain>) -> Result<Arc<av::AddressVector>> {
    let vector = domain.address_vector(
        HERE,
        &av::Attr {
            kind: None,
            rx_ctx_bits: 0,
            count: 0,
            is_async: true,
            name: Some(c"kofi_fi_dropped"),
            is_read_only: false,
        },
    )?;
    vector.bind(HERE, &fabric.event_queue(HERE, eq::Attr::default())?)?;
    Ok(vector)
}

fn counter(domain: &Arc<Domain>) -> Result<Arc<cntr::Counter>> {
    domain.counter(HERE, &cntr::Attr::default())
}

#[kunit_tests(kofi_fi_dropped)]
mod tests {
    use super::*;
    use crate::fi::av_set::{
        AddressSet,
        InitialMembers, //
    };
    use kernel::sync::rcu;

    type Done = kernel::error::Result;

    #[test]
    fn fabrics_domains_and_queues_close_behind_an_interrupt() -> Done {
        assert_eq!(
            in_interrupt(|fabric, _| Ok(fabric.clone()))?,
            CLOSED_IN_PROCESS
        );
        assert_eq!(
            in_interrupt(|_, domain| Ok(domain.clone()))?,
            CLOSED_IN_PROCESS
        );
        let queue = in_interrupt(|fabric, _| fabric.event_queue(HERE, eq::Attr::default()));
        assert_eq!(queue?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn counters_sets_and_vectors_close_behind_an_interrupt() -> Done {
        assert_eq!(
            in_interrupt(|_, domain| counter(domain))?,
            CLOSED_IN_PROCESS
        );
        let poll_set = in_interrupt(|_, domain| {
            let set = domain.poll_set(HERE)?;
            set.add_counter(HERE, &counter(domain)?, 1)?;
            Ok(set)
        });
        assert_eq!(poll_set?, CLOSED_IN_PROCESS);
        assert_eq!(
            in_interrupt(|fabric, _| fabric.wait_set(HERE))?,
            CLOSED_IN_PROCESS
        );
        let member = in_interrupt(|fabric, domain| {
            let set = fabric.wait_set(HERE)?;
            set.add_counter(HERE, &counter(domain)?, 1)
        });
        assert_eq!(member?, CLOSED_IN_PROCESS);
        assert_eq!(in_interrupt(vector)?, CLOSED_IN_PROCESS);
        let set = in_interrupt(|fabric, domain| {
            AddressSet::new(HERE, &vector(fabric, domain)?, 0, InitialMembers::Empty)
        });
        assert_eq!(set?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn calls_and_threads_end_behind_an_interrupt() -> Done {
        let handled = in_interrupt(|fabric, domain| {
            let domain = domain.clone();
            let handler = move |_: ProcessContext, _: &Arc<eq::EventQueue>| drop(domain.clone());
            eq::EventHandler::open(HERE, fabric, eq::Attr::default(), handler)
        });
        assert_eq!(handled?, CLOSED_IN_PROCESS);
        let thread = in_interrupt(|_, domain| {
            let domain = domain.clone();
            Thread::spawn(HERE, c"kofi_dropped", move |_| {
                while !crate::util::context::kthread_should_stop() {
                    fsleep(Delta::from_millis(1));
                }
                drop(domain);
            })
        });
        assert_eq!(thread?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn all_of_a_fabric_can_be_dropped_at_once() -> Done {
        let all = in_interrupt(|fabric, domain| {
            let queue = fabric.event_queue(HERE, eq::Attr::default())?;
            let set = fabric.wait_set(HERE)?;
            let member = set.add_events(HERE, &queue, 1)?;
            let counters = (counter(domain)?, counter(domain)?);
            let above = (fabric.clone(), domain.clone());
            Ok((above, queue, set, member, counters, vector(fabric, domain)?))
        });
        assert_eq!(all?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn memory_that_is_registered_or_lent_closes_behind_an_interrupt() -> Done {
        let registered = in_interrupt(|_, domain| Buffer::registered(HERE, domain, 64, 0));
        assert_eq!(registered?, CLOSED_IN_PROCESS);
        let lent = in_interrupt(|_, domain| {
            let buffer = Buffer::new(HERE, 64, 0)?;
            Ok(RemoteBuffer::new(
                HERE,
                domain,
                buffer,
                RemoteAccess::ReadWrite,
            )?)
        });
        assert_eq!(lent?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn a_buffer_of_pages_can_be_dropped_in_an_interrupt() -> Done {
        for len in [1, 5 << 20] {
            assert!(drop_in_interrupt(Buffer::new(HERE, len, 0)?).is_ok());
        }
        Ok(())
    }

    #[test]
    fn what_is_dropped_where_it_may_sleep_has_closed_when_that_returns() -> Done {
        let witness = CloseCounter::new()?;
        let fabric = counted_fabric(&witness)?;
        let domain = fabric.domain(HERE, &*Info::new()?)?;
        let counter = counter(&domain)?;
        drop((fabric, domain));
        assert_eq!(witness.closes(), (0, 0));
        drop(counter);
        assert_eq!(witness.closes(), (1, 0));
        Ok(())
    }

    #[test]
    fn interrupts_that_are_off_are_as_good_as_one() -> Done {
        let seen = drop_last(
            |_, domain| counter(domain),
            |counter| {
                let lock = dropper(())?;
                let guard = lock.value.lock();
                drop(counter);
                drop(guard);
                Ok(())
            },
        );
        assert_eq!(seen?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn readers_that_rcu_knows_of_may_not_sleep() {
        assert!(may_sleep());
        let reader = rcu::read_lock();
        let asked = may_sleep();
        drop(reader);
        // Only kernels with these options count RCU readers or preemption.
        let is_seen = cfg!(any(CONFIG_PREEMPT_RCU, CONFIG_PREEMPT_COUNT));
        assert!(asked != is_seen);
        assert!(may_sleep());
    }
}
