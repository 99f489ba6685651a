// SPDX-License-Identifier: GPL-2.0

//! Waiting for peers.
//!
//! Those who have come wait in `Hall::waiting`; its lock, and that of each of them, is held across no
//! call of rdma_cm.

use super::{
    super::{
        cm::{
            CmEvent,
            CmHandler,
            CmId,
            ConnParam,
            LockedCmId,
            REJ_CONSUMER_DEFINED, //
        },
        completion::TimedCompletion,
        net::{
            Net,
            SockAddr, //
        },
    },
    meeting::{
        Meeting,
        DATA, //
    },
    End,
    GoOn,
    Unconnected,
    TICK_MS, //
};
use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock, //
    },
    time::msecs_to_jiffies, //
};

/// How many may wait.
const BACKLOG: usize = 16;

/// Somebody who has come.
struct Arrival {
    id: CmId,
    data: [u8; DATA],
    depths: (u8, u8),
}

/// The same as long as nobody has taken it: rdma_cm tells when it leaves.
#[pin_data]
struct Caller {
    #[pin]
    arrival: SpinLock<Option<Arrival>>,
}

impl CmHandler for Caller {
    fn handle_event(self: Arc<Self>, _id: &LockedCmId, _event: CmEvent<'_>) {
        // Nothing but bad news reaches an id that has not been accepted. Dropping it lets its device go.
        let arrival = self.arrival.lock().take();
        drop(arrival);
    }
}

#[pin_data]
struct Hall {
    /// That of the listener, until its device goes away.
    #[pin]
    id: Mutex<Option<CmId>>,
    #[pin]
    waiting: Mutex<KVec<Arc<Caller>>>,
    #[pin]
    came: TimedCompletion,
}

impl Hall {
    /// Lets somebody wait; an error sends it away.
    fn admit(&self, id: CmId, conn: &ConnParam<'_>) -> Result {
        let mut data = [0; DATA];
        for (to, from) in data.iter_mut().zip(conn.private_data) {
            *to = *from;
        }
        let depths = (conn.responder_resources, conn.initiator_depth);
        let caller = Arc::pin_init(
            pin_init!(Caller {
                arrival <- new_spinlock!(None, "kofi::by_hand::Caller"),
            }),
            GFP_KERNEL,
        )?;
        let mut waiting = self.waiting.lock();
        if waiting.len() >= BACKLOG {
            return Err(ENOSPC);
        }
        waiting.push(caller.clone(), GFP_KERNEL)?;
        id.set_handler(Some(caller.clone()));
        *caller.arrival.lock() = Some(Arrival { id, data, depths });
        // Not before: who is found without an arrival has left.
        drop(waiting);
        self.came.complete();
        Ok(())
    }
}

impl CmHandler for Hall {
    fn handle_event(self: Arc<Self>, _id: &LockedCmId, event: CmEvent<'_>) {
        match event {
            // Dropped on the way, the id refuses the peer.
            CmEvent::ConnectRequest { id, conn } => drop(self.admit(id, &conn)),
            CmEvent::DeviceRemoval => {
                let id = self.id.lock().take();
                drop(id);
                self.came.complete();
            }
            _ => {}
        }
    }
}

/// Waits for peers at an address, until it is dropped.
pub(crate) struct Listener(Arc<Hall>);

impl Listener {
    /// One at `local`, for peers on any device that has the address.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV`, `ENOMEM`.
    pub(crate) fn new(net: &Net, local: &SockAddr) -> Result<Self> {
        let hall = Arc::pin_init(
            pin_init!(Hall {
                id <- new_mutex!(None, "kofi::by_hand::Hall"),
                waiting <- new_mutex!(KVec::new(), "kofi::by_hand::Hall::waiting"),
                came <- TimedCompletion::new(),
            }),
            GFP_KERNEL,
        )?;
        let id = CmId::new(net, None)?;
        id.bind(local)?;
        id.listen(BACKLOG as i32)?;
        id.set_handler(Some(hall.clone()));
        *hall.id.lock() = Some(id);
        Ok(Self(hall))
    }

    /// Waits for somebody. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device goes away, `EINTR`.
    pub(crate) fn next(&self, go_on: GoOn) -> Result<Request> {
        loop {
            let caller = {
                let mut waiting = self.0.waiting.lock();
                match waiting.is_empty() {
                    true => None,
                    false => waiting.remove(0).ok(),
                }
            };
            if let Some(caller) = caller {
                let arrival = caller.arrival.lock().take();
                match arrival {
                    Some(arrival) => return Ok(Request(arrival)),
                    // It has left.
                    None => continue,
                }
            }
            if self.0.id.lock().is_none() {
                return Err(ENODEV);
            }
            if self.0.came.wait_timeout(msecs_to_jiffies(TICK_MS)) == 0 && !go_on() {
                return Err(EINTR);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Without it nobody comes any more; those who wait are refused with the hall.
        let id = self.0.id.lock().take();
        drop(id);
        let waiting = core::mem::take(&mut *self.0.waiting.lock());
        for caller in waiting {
            // Its id holds the caller, and the caller the id.
            let arrival = caller.arrival.lock().take();
            drop(arrival);
        }
    }
}

/// Somebody who wants a connection; dropped, it is refused.
pub(crate) struct Request(Arrival);

impl Request {
    /// What it has said.
    pub(crate) fn data(&self) -> &[u8] {
        &self.0.data
    }

    /// Refuses it, with some bytes. May sleep.
    pub(crate) fn refuse(self, data: &[u8]) {
        // Who has gone need not be told.
        let _ = self.0.id.reject(data, REJ_CONSUMER_DEFINED);
    }

    /// An end for it, on which `depth` requests can be posted in each direction. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV`, `ENOMEM`.
    pub(crate) fn open(self, depth: usize) -> Result<Unconnected> {
        let Arrival { id, depths, .. } = self.0;
        let meeting = Meeting::new()?;
        id.set_handler(Some(meeting.clone()));
        Ok(Unconnected {
            end: End::new(id, meeting, depth)?,
            depths,
        })
    }
}
