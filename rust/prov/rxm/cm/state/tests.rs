// SPDX-License-Identifier: GPL-2.0

//! Tests of the state machine: two ends with simultaneous requests, whose messages arrive in any order.

use super::*;
use crate::util::random::SeededRandom;
use kernel::{
    alloc::KVec,
    prelude::*, //
};

/// Message of one end, with the connection that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CmMsg {
    Request(ConnId, u32),
    Accept(ConnId, u32),
    Rtu(u32),
    Reject(RejectReason, u32),
    /// The sender has dropped the connection.
    Disconnect(u32),
}

/// End of a connection.
struct End {
    fsm: ConnFsm,
    conn_id: ConnId,
    /// Current connection; messages of others are ignored.
    conn_gen: Option<u32>,
    /// Order of the own address relative to the peer's.
    order: Ordering,
}

impl End {
    fn new(instance: u32, order: Ordering) -> Self {
        Self {
            fsm: ConnFsm::new(),
            conn_id: ConnId { instance, index: 0 },
            conn_gen: None,
            order,
        }
    }
}

struct Pair {
    ends: [End; 2],
    /// Messages to each end, in order for each connection.
    in_flight: [KVec<CmMsg>; 2],
    last_gen: u32,
    random: SeededRandom,
}

impl Pair {
    fn new(seed: u64) -> Self {
        Self {
            ends: [End::new(1, Ordering::Less), End::new(2, Ordering::Greater)],
            in_flight: [KVec::new(), KVec::new()],
            last_gen: 0,
            random: SeededRandom::new(seed),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.next_below(bound as u64) as usize
    }

    fn send(&mut self, from: usize, msg: CmMsg) -> kernel::error::Result {
        Ok(self.in_flight[1 - from].push(msg, GFP_KERNEL)?)
    }

    fn connect(&mut self, end: usize) -> kernel::error::Result {
        self.last_gen += 1;
        self.ends[end].conn_gen = Some(self.last_gen);
        self.send(end, CmMsg::Request(self.ends[end].conn_id, self.last_gen))
    }

    fn start(&mut self, end: usize) -> kernel::error::Result {
        match self.ends[end].fsm.start() {
            true => self.connect(end),
            false => Ok(()),
        }
    }

    /// Drops the connection.
    fn disconnect(&mut self, end: usize) -> kernel::error::Result {
        match self.ends[end].conn_gen.take() {
            Some(conn_gen) => self.send(end, CmMsg::Disconnect(conn_gen)),
            None => Ok(()),
        }
    }

    /// Restarts the end as another instance.
    fn restart(&mut self, end: usize) -> kernel::error::Result {
        self.disconnect(end)?;
        self.ends[end].fsm = ConnFsm::new();
        self.ends[end].conn_id.instance += 2;
        Ok(())
    }

    /// Delivers a message to an end: any one, but in order for each connection.
    fn deliver(&mut self, to: usize) -> kernel::error::Result {
        let count = self.in_flight[to].len();
        if count == 0 {
            return Ok(());
        }
        let number = |msg: &CmMsg| match *msg {
            CmMsg::Request(_, number)
            | CmMsg::Accept(_, number)
            | CmMsg::Rtu(number)
            | CmMsg::Reject(_, number)
            | CmMsg::Disconnect(number) => number,
        };
        let chosen = self.below(count);
        let conn_gen = self.in_flight[to].get(chosen).map(number);
        let first = self.in_flight[to]
            .iter()
            .position(|msg| Some(number(msg)) == conn_gen);
        let msg = self.in_flight[to]
            .remove(first.unwrap_or(0))
            .map_err(|_| EINVAL)?;
        self.receive(to, msg)
    }

    fn receive(&mut self, to: usize, msg: CmMsg) -> kernel::error::Result {
        let (order, own_id) = (self.ends[to].order.reverse(), self.ends[to].conn_id);
        let is_ours = |end: &End, number| end.conn_gen == Some(number);
        match msg {
            CmMsg::Request(conn_id, number) => match self.ends[to].fsm.on_connreq(conn_id, order) {
                ConnReqAction::Reject => {
                    self.send(to, CmMsg::Reject(RejectReason::Already, number))
                }
                action => {
                    if action == ConnReqAction::Replace {
                        self.disconnect(to)?;
                    }
                    self.ends[to].conn_gen = Some(number);
                    self.send(to, CmMsg::Accept(own_id, number))
                }
            },
            CmMsg::Accept(conn_id, number) if is_ours(&self.ends[to], number) => {
                assert!(self.ends[to].fsm.on_accept(conn_id));
                self.send(to, CmMsg::Rtu(number))
            }
            CmMsg::Accept(_, number) => self.send(to, CmMsg::Disconnect(number)),
            CmMsg::Rtu(number) if is_ours(&self.ends[to], number) => {
                assert!(self.ends[to].fsm.on_established().is_some());
                Ok(())
            }
            CmMsg::Reject(reason, number) if is_ours(&self.ends[to], number) => {
                assert!(!self.ends[to].fsm.on_reject(reason));
                self.ends[to].conn_gen = None;
                Ok(())
            }
            CmMsg::Disconnect(number) if is_ours(&self.ends[to], number) => {
                self.ends[to].conn_gen = None;
                self.ends[to].fsm.on_down();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Delivers all messages, and lets timeouts expire.
    fn settle(&mut self) -> kernel::error::Result {
        for _ in 0..8 {
            while self.in_flight.iter().any(|in_flight| !in_flight.is_empty()) {
                let to = self.below(2);
                self.deliver(to)?;
            }
            for end in 0..2 {
                if self.ends[end].fsm.on_timeout() {
                    self.connect(end)?;
                }
            }
        }
        Ok(())
    }
}

#[kunit_tests(kofi_rdm_conn_state)]
mod cases {
    use super::*;
    use core::net::Ipv4Addr;

    const ONE: ConnId = ConnId {
        instance: 1,
        index: 5,
    };

    #[test]
    fn connector_and_acceptor_reach_connected() {
        let mut fsm = ConnFsm::new();
        assert!(fsm.start());
        assert!(!fsm.start());
        assert!(!fsm.on_timeout());
        assert!(fsm.on_accept(ONE));
        assert_eq!(fsm.state(), State::Connected(ONE));
        assert!(!fsm.on_accept(ONE));
        let mut fsm = ConnFsm::new();
        assert_eq!(fsm.on_connreq(ONE, Ordering::Less), ConnReqAction::Accept);
        assert!(!fsm.start());
        assert_eq!(fsm.on_established(), Some(ONE));
        assert_eq!(fsm.on_established(), None);
        assert_eq!(fsm.state(), State::Connected(ONE));
    }

    #[test]
    fn simultaneous_requests_keep_that_of_the_higher_address() {
        let mut fsm = ConnFsm::new();
        let _ = fsm.start();
        assert_eq!(fsm.on_connreq(ONE, Ordering::Less), ConnReqAction::Reject);
        assert_eq!(fsm.state(), State::Connecting);
        assert_eq!(
            fsm.on_connreq(ONE, Ordering::Greater),
            ConnReqAction::Replace
        );
        assert_eq!(fsm.state(), State::Accepting(ONE));
    }

    #[test]
    fn reject_already_awaits_the_request_of_the_peer() {
        let mut fsm = ConnFsm::new();
        let _ = fsm.start();
        assert!(!fsm.on_reject(RejectReason::Already));
        assert_eq!(fsm.state(), State::AwaitingPeer);
        assert!(!fsm.start());
        assert!(fsm.on_timeout());
        assert_eq!(fsm.state(), State::Connecting);
        let _ = fsm.on_reject(RejectReason::Already);
        assert_eq!(fsm.on_connreq(ONE, Ordering::Less), ConnReqAction::Accept);
        let mut fsm = ConnFsm::new();
        let _ = fsm.start();
        assert!(fsm.on_reject(RejectReason::Refused));
        assert_eq!(fsm.state(), State::Idle);
    }

    #[test]
    fn awaiting_the_peer_ends_after_max_timeouts() {
        let mut fsm = ConnFsm::new();
        for _ in 0..2 {
            assert!(fsm.start());
            let mut timeouts = 0;
            while !fsm.on_reject(RejectReason::Already) {
                assert!(fsm.on_timeout());
                timeouts += 1;
            }
            assert_eq!(timeouts, MAX_TIMEOUTS);
            assert_eq!(fsm.state(), State::Idle);
        }
        // Timeouts count if the end yields to others, too.
        let mut rounds = 0;
        while fsm.start() && !fsm.on_reject(RejectReason::Already) {
            assert!(fsm.leave_awaiting() && !fsm.leave_awaiting());
            rounds += 1;
        }
        assert_eq!(rounds, MAX_TIMEOUTS);
    }

    #[test]
    fn rdm_10_no_request_replaces_a_connection() {
        let unnumbered = ConnId { instance: 0, ..ONE };
        let other = ConnId { instance: 2, ..ONE };
        for first in [ONE, unnumbered] {
            for open in [false, true] {
                let mut fsm = ConnFsm::new();
                assert_eq!(fsm.on_connreq(first, Ordering::Less), ConnReqAction::Accept);
                if open {
                    let _ = fsm.on_established();
                }
                let state = fsm.state();
                for order in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
                    for id in [ONE, other, unnumbered] {
                        assert_eq!(fsm.on_connreq(id, order), ConnReqAction::Reject);
                        assert_eq!(fsm.state(), state);
                    }
                }
                // After the old connection has ended, the next request is accepted.
                fsm.on_down();
                assert_eq!(fsm.on_connreq(other, Ordering::Less), ConnReqAction::Accept);
                assert_eq!(fsm.state(), State::Accepting(other));
            }
        }
    }

    #[test]
    fn late_messages_change_nothing() {
        let mut fsm = ConnFsm::new();
        assert!(!fsm.on_accept(ONE));
        assert_eq!(fsm.on_established(), None);
        assert!(!fsm.on_reject(RejectReason::Refused));
        assert_eq!(fsm, ConnFsm::new());
        let _ = fsm.on_connreq(ONE, Ordering::Less);
        assert!(!fsm.on_reject(RejectReason::Already));
        assert_eq!(fsm.state(), State::Accepting(ONE));
        fsm.on_down();
        assert_eq!(fsm, ConnFsm::new());
    }

    #[test]
    fn connecting_or_accepting_ends_the_wait_for_admission() {
        // The peer is admitted, or sends a request itself.
        let ways: [fn(&mut ConnFsm); 2] = [
            |fsm| assert!(fsm.start()),
            |fsm| assert_eq!(fsm.on_connreq(ONE, Ordering::Less), ConnReqAction::Accept),
        ];
        for begin in ways {
            let mut fsm = ConnFsm::new();
            assert!(fsm.enqueue(7));
            // The first number is kept.
            assert!(!fsm.enqueue(8));
            assert_eq!(fsm.wait_seq(), Some(7));
            begin(&mut fsm);
            assert_eq!(fsm.wait_seq(), None);
            assert!(!fsm.enqueue(9));
            assert_eq!(fsm.wait_seq(), None);
            fsm.on_down();
            assert!(fsm.enqueue(10));
            // The attempt that ends was over already.
            fsm.on_down();
            assert_eq!(fsm.wait_seq(), Some(10));
        }
    }

    #[test]
    fn addresses_are_compared_as_on_the_wire() {
        let address = |last, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), port));
        let rising = [
            address(1, 0x0100),
            address(1, 0x01ff),
            address(1, 0x0200),
            address(2, 1),
            address(200, 0),
        ];
        for (at, one) in rising.iter().enumerate() {
            for (other_at, other) in rising.iter().enumerate() {
                assert_eq!(order(one, other), at.cmp(&other_at));
            }
        }
        let one = SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 0x0100], 9));
        let other = SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 0x0201], 1));
        assert_eq!(order(&one, &other), Ordering::Less);
    }

    #[test]
    fn random_simultaneous_requests_connect_both_ends() -> kernel::error::Result {
        let mut crossed = 0;
        for seed in 0..2000 {
            let mut pair = Pair::new(seed);
            for _ in 0..2 + pair.below(8) {
                let end = pair.below(2);
                match pair.below(3) {
                    0 => pair.start(end)?,
                    _ => pair.deliver(end)?,
                }
            }
            pair.start(0)?;
            pair.start(1)?;
            crossed += usize::from(pair.last_gen > 1);
            pair.settle()?;
            let [one, other] = &pair.ends;
            assert_eq!(one.fsm.state(), State::Connected(other.conn_id));
            assert_eq!(other.fsm.state(), State::Connected(one.conn_id));
            assert_eq!(one.conn_gen, other.conn_gen);
        }
        assert!(crossed > 200);
        Ok(())
    }

    #[test]
    fn random_restarts_reconnect_both_ends() -> kernel::error::Result {
        for seed in 0..2000 {
            let mut pair = Pair::new(seed);
            for _ in 0..4 + pair.below(30) {
                let end = pair.below(2);
                match pair.below(6) {
                    0 => pair.restart(end)?,
                    1 | 2 => pair.start(end)?,
                    _ => pair.deliver(end)?,
                }
            }
            pair.settle()?;
            pair.start(0)?;
            pair.start(1)?;
            pair.settle()?;
            let [one, other] = &pair.ends;
            assert_eq!(one.fsm.state(), State::Connected(other.conn_id));
            assert_eq!(other.fsm.state(), State::Connected(one.conn_id));
            assert_eq!(one.conn_gen, other.conn_gen);
        }
        Ok(())
    }
}
