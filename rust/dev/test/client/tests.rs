// SPDX-License-Identifier: GPL-2.0

//! What clients do, and notice, over a link without a wire: the server is in the link itself.

use super::{
    super::{
        memory::{
            load,
            store, //
        },
        protocol::{
            write_grant,
            write_report, //
        },
        request::{
            Change,
            Kind, //
        },
    },
    *, //
};
use crate::{
    abi::{
        kofi_watch,
        FI_UINT64, //
    },
    fi::{
        atomic::{
            Datatype,
            Form,
            Op,
            Operands, //
        },
        msg::{
            RemoteElements,
            RemoteMemory, //
        },
    },
};

type Memory = KBox<KVec<u8>>;

/// Tests run where they may sleep.
const HERE: ProcessContext = ProcessContext::assume();

/// How many messages or accesses there are.
const COUNT: u64 = 20;

/// Where the server's memory begins.
const BASE: u64 = 1 << 40;

/// Does at once what is asked for.
struct Server {
    traffic: Traffic,
    /// What it lends.
    memory: KVec<u8>,
    /// The client's receives.
    posted: KVec<Memory>,
    /// Messages to the client.
    answers: KVec<(Memory, usize)>,
    /// What the client posted otherwise.
    over: KVec<Memory>,
    /// Messages of a stream, and how many of them were not good.
    seq: u64,
    damaged: u64,
    /// How many operations there were, and which of them damages a byte.
    operations: u64,
    damaging: Option<u64>,
}

impl Server {
    fn is_damaging(&mut self) -> bool {
        let number = self.operations;
        self.operations += 1;
        self.damaging == Some(number)
    }

    fn lent(&mut self, at: RemoteMemory, len: usize) -> Result<&mut [u8]> {
        let from = at.addr.checked_sub(BASE).ok_or(Errno::EINVAL)?;
        let behind = self.memory.get_mut(usize::try_from(from)?..);
        behind
            .and_then(|behind| behind.get_mut(..len))
            .ok_or(Errno::EINVAL)
    }

    fn answer(&mut self, message: &[u8]) -> Result {
        let mut buffer = self.posted.remove(0).map_err(|_| Errno::ENOBUFS)?;
        copy(&mut buffer, message);
        Ok(self.answers.push((buffer, message.len()), GFP_KERNEL)?)
    }

    fn keep(&mut self, buffer: Memory) -> Result {
        Ok(self.over.push(buffer, GFP_KERNEL)?)
    }
}

fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

fn damage(bytes: &mut [u8], is_damaging: bool) {
    if let Some(byte) = bytes.first_mut() {
        *byte ^= u8::from(is_damaging);
    }
}

impl Link for Server {
    type Buffer = KVec<u8>;

    fn buffer(&self, _here: ProcessContext, len: usize) -> Result<Memory> {
        Ok(KBox::new(KVec::from_elem(0, len, GFP_KERNEL)?, GFP_KERNEL)?)
    }

    fn receive(&mut self, buffer: Memory) -> Result {
        Ok(self.posted.push(buffer, GFP_KERNEL)?)
    }

    fn send(&mut self, mut buffer: Memory, len: usize) -> Result {
        damage(&mut buffer, self.is_damaging());
        let message = buffer.get(..len).ok_or(Errno::EINVAL)?;
        if self.traffic.kind == Kind::PingPong {
            self.answer(message)?;
        } else if message.is_empty() {
            let mut report = [0; REPORT];
            write_report(&mut report, self.damaged);
            self.answer(&report)?;
        } else {
            let is_good = self.traffic.is_good(message, len, self.seq);
            self.damaged += u64::from(!is_good);
            self.seq += 1;
            if self.seq.is_multiple_of(self.traffic.window as u64) {
                self.answer(&[])?;
            }
        }
        self.keep(buffer)
    }

    fn write(&mut self, buffer: Memory, len: usize, to: RemoteMemory) -> Result {
        let is_damaging = self.is_damaging();
        let place = self.lent(to, len)?;
        copy(place, &buffer);
        damage(place, is_damaging);
        self.keep(buffer)
    }

    fn read(&mut self, mut buffer: Memory, len: usize, from: RemoteMemory) -> Result {
        let is_damaging = self.is_damaging();
        copy(&mut buffer, self.lent(from, len)?);
        damage(&mut buffer, is_damaging);
        self.keep(buffer)
    }

    fn change(&mut self, mut buffer: Memory, change: &Change, elements: RemoteElements) -> Result {
        let RemoteElements {
            remote,
            count,
            datatype,
        } = elements;
        let is_damaging = self.is_damaging();
        let place = self.lent(remote, count * datatype.size())?;
        let halves = buffer.split_at_mut_checked(place.len());
        let (operands, compared) = halves.ok_or(Errno::EINVAL)?;
        let places = place.chunks_mut(datatype.size());
        let given = operands
            .chunks_mut(datatype.size())
            .zip(compared.chunks(datatype.size()));
        for (place, (operand, compare)) in places.zip(given) {
            let given = Operands {
                old: load(place),
                operand: load(operand),
                compare: load(compare),
            };
            store(operand, given.old);
            store(place, change.op.apply(datatype, given));
        }
        damage(operands, is_damaging);
        self.keep(buffer)
    }

    fn sent(&mut self, _here: ProcessContext) -> Result<Memory> {
        self.over.remove(0).map_err(|_| Errno::ETIMEDOUT)
    }

    fn received(&mut self, _here: ProcessContext) -> Result<(Memory, usize)> {
        self.answers.remove(0).map_err(|_| Errno::ETIMEDOUT)
    }

    fn end(&mut self, _here: ProcessContext) -> Result {
        Ok(())
    }
}

/// Every task there is.
fn tasks() -> Result<[Task; 6]> {
    let change = |form, op| -> Result<Task> {
        let datatype = Datatype::from_raw(FI_UINT64)?;
        Ok(Task::Change(Change { form, op, datatype }))
    };
    Ok([
        Task::PingPong,
        Task::Stream,
        Task::Write,
        Task::Read,
        change(Form::Fetch, Op::Sum)?,
        change(Form::Compare, Op::Swap)?,
    ])
}

/// What a client has done, and noticed, where one operation damages a byte, or none.
fn done(task: Task, verify: bool, damaging: Option<u64>) -> Result<kofi_watch> {
    let traffic = Traffic {
        kind: task.kind(),
        window: 4,
        length: 64,
        verify,
    };
    let mut server = Server {
        traffic,
        memory: KVec::from_elem(0, traffic.room(), GFP_KERNEL)?,
        posted: KVec::new(),
        answers: KVec::new(),
        over: KVec::new(),
        seq: 0,
        damaged: 0,
        operations: 0,
        damaging,
    };
    let work = Work {
        traffic,
        task,
        bound: Bound {
            count: COUNT,
            msec: 0,
        },
        by_hand: false,
    };
    let tally = Tally::of_client()?;
    let answer = write_grant(RemoteMemory { addr: BASE, key: 7 });
    work_on(HERE, &mut server, &answer, &work, &tally)?;
    let mut watch: kofi_watch = pin_init::zeroed();
    tally.tell(&mut watch)?;
    Ok(watch)
}

#[kunit_tests(kofi_dev_test_client)]
mod suite {
    use super::*;

    #[test]
    fn each_is_done_as_often_as_it_is_asked_for() -> Result {
        for task in tasks()? {
            let watch = done(task, true, None)?;
            assert_eq!((watch.messages, watch.bytes), (COUNT, COUNT * 64));
            assert_eq!(watch.damaged, 0);
        }
        Ok(())
    }

    #[test]
    fn damage_is_noticed_where_it_is_looked_for() -> Result {
        // Of writes the second in the second window, of reads behind what is written for them.
        const DAMAGING: Option<u64> = Some(9);
        for task in tasks()? {
            assert_eq!(done(task, true, DAMAGING)?.damaged, 1);
            assert_eq!(done(task, false, DAMAGING)?.damaged, 0);
        }
        Ok(())
    }
}
