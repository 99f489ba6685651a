// SPDX-License-Identifier: GPL-2.0

//! Tests that drop the last handle of an object in atomic context, for all objects that can be opened without
//! a device.

use super::dummy_provider::{
    counted_fabric,
    CloseCounter,
    HERE, //
};
use crate::{
    fi::{
        av,
        cntr,
        domain::Domain,
        eq,
        fabric::Fabric,
        memory::Buffer,
        msg::{
            RemoteAccess,
            RemoteBuffer, //
        },
        object::Listed,
        prelude::*, //
    },
    introspect::object_table,
    util::{
        context::{
            may_sleep,
            InterruptContext, //
        },
        irq_work::{
            InterruptHandler,
            IrqWork, //
        },
        thread::Thread, //
    },
};
use kernel::time::delay::fsleep;

/// Drops a value in a hard interrupt.
#[pin_data]
struct Dropper<T> {
    #[pin]
    value: FastLockIrq<Option<T>>,
    done: AtomicFlag,
}

impl<T: Send + Unpin> InterruptHandler for Arc<Dropper<T>> {
    fn handle(&self, _here: &InterruptContext) {
        let object = self.value.lock().take();
        drop(object);
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

fn wait_until(condition: impl Fn() -> bool) -> Result {
    for _ in 0..10_000 {
        if condition() {
            return Ok(());
        }
        fsleep(Delta::from_millis(1));
    }
    Err(Errno::ETIMEDOUT)
}

fn drop_in_interrupt<T: Send + Unpin + 'static>(object: T) -> Result {
    let dropper = dropper(object)?;
    let work = IrqWork::new(KBox::new(dropper.clone(), GFP_KERNEL)?)?;
    work.queue();
    wait_until(|| dropper.done.load(Acquire))
}

/// Number of fabrics that closed in process context, and in atomic context.
type CloseCounts = (u32, u32);

/// Counts of a single close, in process context.
const CLOSED_IN_PROCESS: CloseCounts = (1, 0);

/// Returns true if an object with this number or a later one is in the object table.
fn is_listed(number: u64) -> Result<bool> {
    let mut batch = KVec::with_capacity(1, GFP_KERNEL)?;
    let _ = object_table::read_objects(number - 1, None, &mut batch);
    Ok(!batch.is_empty())
}

/// Opens an object that holds the last references to a fabric of its own, and drops it with `drop_object`. Waits
/// until the fabric has closed, and then until all objects have left the object table, which is the last step
/// of a close.
#[inline(never)]
fn drop_last<T>(
    open: impl FnOnce(&Arc<Fabric>, &Arc<Domain>) -> Result<T>,
    drop_object: impl FnOnce(T) -> Result,
) -> Result<CloseCounts> {
    let close_counter = CloseCounter::new()?;
    let fabric = counted_fabric(&close_counter)?;
    let first = fabric.entry().number();
    let domain = fabric.domain(HERE, &*Info::new()?)?;
    let object = open(&fabric, &domain)?;
    drop((domain, fabric));
    if close_counter.closes() != (0, 0) {
        return Err(Errno::EOTHER);
    }
    drop_object(object)?;
    wait_until(|| close_counter.closes() != (0, 0))?;
    wait_until(|| is_listed(first).is_ok_and(|is_listed| !is_listed))?;
    Ok(close_counter.closes())
}

fn interrupt_drop_counts<T: Send + Unpin + 'static>(
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
            name: Some(c"kofi_fi_drop_in_interrupt"),
            is_read_only: false,
        },
    )?;
    vector.bind(HERE, &fabric.event_queue(HERE, eq::Attr::default())?)?;
    Ok(vector)
}

fn counter(domain: &Arc<Domain>) -> Result<Arc<cntr::Counter>> {
    domain.counter(HERE, &cntr::Attr::default())
}

#[kunit_tests(kofi_fi_drop_in_interrupt)]
mod tests {
    use super::*;
    use crate::fi::av_set::{
        AddressSet,
        InitialMembers, //
    };
    use kernel::sync::rcu;

    type TestResult = kernel::error::Result;

    #[test]
    fn fabric_domain_and_eq_dropped_in_interrupt_close_in_process() -> TestResult {
        assert_eq!(
            interrupt_drop_counts(|fabric, _| Ok(fabric.clone()))?,
            CLOSED_IN_PROCESS
        );
        assert_eq!(
            interrupt_drop_counts(|_, domain| Ok(domain.clone()))?,
            CLOSED_IN_PROCESS
        );
        let queue =
            interrupt_drop_counts(|fabric, _| fabric.event_queue(HERE, eq::Attr::default()));
        assert_eq!(queue?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn counter_set_and_av_dropped_in_interrupt_close_in_process() -> TestResult {
        assert_eq!(
            interrupt_drop_counts(|_, domain| counter(domain))?,
            CLOSED_IN_PROCESS
        );
        let poll_set = interrupt_drop_counts(|_, domain| {
            let set = domain.poll_set(HERE)?;
            set.add_counter(HERE, &counter(domain)?, 1)?;
            Ok(set)
        });
        assert_eq!(poll_set?, CLOSED_IN_PROCESS);
        assert_eq!(
            interrupt_drop_counts(|fabric, _| fabric.wait_set(HERE))?,
            CLOSED_IN_PROCESS
        );
        let member = interrupt_drop_counts(|fabric, domain| {
            let set = fabric.wait_set(HERE)?;
            set.add_counter(HERE, &counter(domain)?, 1)
        });
        assert_eq!(member?, CLOSED_IN_PROCESS);
        assert_eq!(interrupt_drop_counts(vector)?, CLOSED_IN_PROCESS);
        let set = interrupt_drop_counts(|fabric, domain| {
            AddressSet::new(HERE, &vector(fabric, domain)?, 0, InitialMembers::Empty)
        });
        assert_eq!(set?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn handler_and_thread_dropped_in_interrupt_stop_in_process() -> TestResult {
        let handler_counts = interrupt_drop_counts(|fabric, domain| {
            let domain = domain.clone();
            let handler = move |_: ProcessContext, _: &Arc<eq::EventQueue>| drop(domain.clone());
            eq::EventHandler::open(HERE, fabric, eq::Attr::default(), handler)
        });
        assert_eq!(handler_counts?, CLOSED_IN_PROCESS);
        let thread = interrupt_drop_counts(|_, domain| {
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
    fn whole_fabric_dropped_in_interrupt_closes_in_process() -> TestResult {
        let all = interrupt_drop_counts(|fabric, domain| {
            let queue = fabric.event_queue(HERE, eq::Attr::default())?;
            let set = fabric.wait_set(HERE)?;
            let member = set.add_events(HERE, &queue, 1)?;
            let counters = (counter(domain)?, counter(domain)?);
            let parents = (fabric.clone(), domain.clone());
            Ok((
                parents,
                queue,
                set,
                member,
                counters,
                vector(fabric, domain)?,
            ))
        });
        assert_eq!(all?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn registered_memory_dropped_in_interrupt_closes_in_process() -> TestResult {
        let registered = interrupt_drop_counts(|_, domain| Buffer::registered(HERE, domain, 64, 0));
        assert_eq!(registered?, CLOSED_IN_PROCESS);
        let exposed = interrupt_drop_counts(|_, domain| {
            let buffer = Buffer::new(HERE, 64, 0)?;
            Ok(RemoteBuffer::new(
                HERE,
                domain,
                buffer,
                RemoteAccess::ReadWrite,
            )?)
        });
        assert_eq!(exposed?, CLOSED_IN_PROCESS);
        Ok(())
    }

    #[test]
    fn unregistered_buffer_can_be_dropped_in_interrupt() -> TestResult {
        for len in [1, 5 << 20] {
            assert!(drop_in_interrupt(Buffer::new(HERE, len, 0)?).is_ok());
        }
        Ok(())
    }

    #[test]
    fn drop_in_process_context_closes_synchronously() -> TestResult {
        let close_counter = CloseCounter::new()?;
        let fabric = counted_fabric(&close_counter)?;
        let domain = fabric.domain(HERE, &*Info::new()?)?;
        let counter = counter(&domain)?;
        drop((fabric, domain));
        assert_eq!(close_counter.closes(), (0, 0));
        drop(counter);
        assert_eq!(close_counter.closes(), (1, 0));
        Ok(())
    }

    #[test]
    fn drop_with_interrupts_disabled_closes_in_process() -> TestResult {
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
    fn may_sleep_is_false_in_an_rcu_read_section() {
        assert!(may_sleep());
        let reader = rcu::read_lock();
        let in_reader = may_sleep();
        drop(reader);
        // Only kernels with these options count RCU readers or preemption.
        let is_detected = cfg!(any(CONFIG_PREEMPT_RCU, CONFIG_PREEMPT_COUNT));
        assert!(in_reader != is_detected);
        assert!(may_sleep());
    }
}
