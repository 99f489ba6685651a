// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the client over a transport in memory, which performs the server's part.

use super::{
    super::{
        bindings::kofi_watch,
        config::{
            AtomicConfig,
            Kind, //
        },
        protocol::write_report, //
    },
    *,
};
use kofi::{
    abi::FI_UINT64,
    fi::{
        atomic::{
            load_element,
            store_element,
            Datatype,
            Form,
            Op,
            Operands, //
        },
        msg::RemoteElements, //
    },
    util::context::in_process, //
};

type Memory = KBox<KVec<u8>>;

/// Messages or accesses of a test.
const COUNT: u64 = 20;

/// Address of the server's memory.
const BASE: u64 = 1 << 40;

/// A transport that performs the server's part in the post functions.
struct Server {
    traffic: Traffic,
    /// The exposed memory.
    memory: KVec<u8>,
    /// The client's posted receives.
    posted: KVec<Memory>,
    /// Messages to the client.
    messages: KVec<(Memory, usize)>,
    /// Completed sends, RMA and atomic operations of the client.
    completed: KVec<Memory>,
    /// Messages of a stream, and how many of them were damaged.
    seq: u64,
    damaged: u64,
    /// Operations so far, and the number of the one that damages a byte.
    operations: u64,
    damaging: Option<u64>,
}

impl Server {
    /// Counts an operation, and returns true if it damages a byte.
    fn count(&mut self) -> bool {
        let number = self.operations;
        self.operations += 1;
        self.damaging == Some(number)
    }

    fn exposed(&mut self, remote: RemoteMemory, len: usize) -> Result<&mut [u8]> {
        let offset = remote.addr.checked_sub(BASE).ok_or(Errno::EINVAL)?;
        let rest = self.memory.get_mut(usize::try_from(offset)?..);
        rest.and_then(|rest| rest.get_mut(..len))
            .ok_or(Errno::EINVAL)
    }

    fn send_to_client(&mut self, message: &[u8]) -> Result {
        let mut buffer = self.posted.remove(0).map_err(|_| Errno::ENOBUFS)?;
        copy(&mut buffer, message);
        Ok(self.messages.push((buffer, message.len()), GFP_KERNEL)?)
    }

    fn complete(&mut self, buffer: Memory) -> Result {
        Ok(self.completed.push(buffer, GFP_KERNEL)?)
    }
}

fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

fn damage(bytes: &mut [u8], damaging: bool) {
    if let Some(byte) = bytes.first_mut() {
        *byte ^= u8::from(damaging);
    }
}

impl Transport for Server {
    type Buffer = KVec<u8>;

    fn alloc(&self, _here: ProcessContext, len: usize) -> Result<Memory> {
        Ok(KBox::new(KVec::from_elem(0, len, GFP_KERNEL)?, GFP_KERNEL)?)
    }

    fn post_recv(&mut self, buffer: Memory) -> Result {
        Ok(self.posted.push(buffer, GFP_KERNEL)?)
    }

    fn post_send(&mut self, mut buffer: Memory, len: usize) -> Result {
        let damaging = self.count();
        damage(&mut buffer, damaging);
        let message = buffer.get(..len).ok_or(Errno::EINVAL)?;
        if self.traffic.kind == Kind::PingPong {
            self.send_to_client(message)?;
        } else if message.is_empty() {
            let mut report = [0; REPORT];
            write_report(&mut report, self.damaged);
            self.send_to_client(&report)?;
        } else {
            let intact = self.traffic.is_intact(message, len, self.seq);
            self.damaged += u64::from(!intact);
            self.seq += 1;
            if self.seq.checked_rem(self.traffic.window as u64) == Some(0) {
                self.send_to_client(&[])?;
            }
        }
        self.complete(buffer)
    }

    fn post_write(&mut self, buffer: Memory, len: usize, to: RemoteMemory) -> Result {
        let damaging = self.count();
        let slot = self.exposed(to, len)?;
        copy(slot, &buffer);
        damage(slot, damaging);
        self.complete(buffer)
    }

    fn post_read(&mut self, mut buffer: Memory, len: usize, from: RemoteMemory) -> Result {
        let damaging = self.count();
        copy(&mut buffer, self.exposed(from, len)?);
        damage(&mut buffer, damaging);
        self.complete(buffer)
    }

    fn post_atomic(
        &mut self,
        mut buffer: Memory,
        config: &AtomicConfig,
        elements: RemoteElements,
    ) -> Result {
        let RemoteElements {
            remote,
            count,
            datatype,
        } = elements;
        let damaging = self.count();
        let slot = self.exposed(remote, count * datatype.size())?;
        let halves = buffer.split_at_mut_checked(slot.len());
        let (operands, compared) = halves.ok_or(Errno::EINVAL)?;
        let targets = slot.chunks_mut(datatype.size());
        let given = operands
            .chunks_mut(datatype.size())
            .zip(compared.chunks(datatype.size()));
        for (target, (operand, compare)) in targets.zip(given) {
            let values = Operands {
                old: load_element(target),
                operand: load_element(operand),
                compare: load_element(compare),
            };
            store_element(operand, values.old);
            store_element(target, config.op.apply(datatype, values));
        }
        damage(operands, damaging);
        self.complete(buffer)
    }

    fn wait_tx(&mut self, _here: ProcessContext) -> Result<Memory> {
        self.completed.remove(0).map_err(|_| Errno::ETIMEDOUT)
    }

    fn wait_rx(&mut self, _here: ProcessContext) -> Result<(Memory, usize)> {
        self.messages.remove(0).map_err(|_| Errno::ETIMEDOUT)
    }

    fn wait_shutdown(&mut self, _here: ProcessContext) -> Result {
        Ok(())
    }
}

/// Returns every task.
fn tasks() -> Result<[Task; 6]> {
    let atomic = |form, op| -> Result<Task> {
        let datatype = Datatype::from_raw(FI_UINT64)?;
        Ok(Task::Atomic(AtomicConfig { form, op, datatype }))
    };
    Ok([
        Task::PingPong,
        Task::Stream,
        Task::Write,
        Task::Read,
        atomic(Form::Fetch, Op::Sum)?,
        atomic(Form::Compare, Op::Swap)?,
    ])
}

/// Runs a task, one operation of which may damage a byte, and returns the statistics.
fn run_task(task: Task, verify: bool, damaging: Option<u64>) -> Result<kofi_watch> {
    let traffic = Traffic {
        kind: task.kind(),
        window: 4,
        length: 64,
        verify,
    };
    let mut server = Server {
        traffic,
        memory: KVec::from_elem(0, traffic.window_bytes(), GFP_KERNEL)?,
        posted: KVec::new(),
        messages: KVec::new(),
        completed: KVec::new(),
        seq: 0,
        damaged: 0,
        operations: 0,
        damaging,
    };
    let config = ClientConfig {
        traffic,
        task,
        limit: Limit {
            count: COUNT,
            msec: 0,
        },
        raw_verbs: false,
    };
    let stats = Stats::of_client()?;
    let exposed = |_: &mut Server| Ok(RemoteMemory { addr: BASE, key: 7 });
    transfer(in_process()?, &mut server, exposed, &config, &stats)?;
    let mut watch: kofi_watch = pin_init::zeroed();
    stats.report(&mut watch)?;
    Ok(watch)
}

#[kunit_tests(kofi_perf_client)]
mod suite {
    use super::*;

    #[test]
    fn every_task_stops_at_its_message_limit() -> Result {
        for task in tasks()? {
            let watch = run_task(task, true, None)?;
            assert_eq!((watch.messages, watch.bytes), (COUNT, COUNT * 64));
            assert_eq!(watch.damaged, 0);
        }
        Ok(())
    }

    #[test]
    fn damage_is_detected_with_verification_only() -> Result {
        // For writes the second one of the second window, for reads one after the initial writes.
        const DAMAGING: Option<u64> = Some(9);
        for task in tasks()? {
            assert_eq!(run_task(task, true, DAMAGING)?.damaged, 1);
            assert_eq!(run_task(task, false, DAMAGING)?.damaged, 0);
        }
        Ok(())
    }
}
