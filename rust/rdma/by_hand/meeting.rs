// SPDX-License-Identifier: GPL-2.0

//! How far a connection is: rdma_cm tells, and who waits is woken.
//!
//! `stand` is held across no call of rdma_cm or of the queue pair.

use super::{
    super::{
        cm::{
            CmEvent,
            CmFailure,
            CmHandler,
            CmIdRef,
            ConnParam,
            LockedCmId,
            REJ_CONSUMER_DEFINED, //
        },
        completion::TimedCompletion,
        device::RemovalNotifier,
        mr::Access,
        qp::Qp, //
    },
    GoOn,
    RESOLVE_MS,
    TICK_MS, //
};
use crate::compat::{
    ECONNABORTED,
    ECONNREFUSED,
    EHOSTUNREACH,
    ENOTCONN, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
    time::msecs_to_jiffies, //
};

/// Bytes of the peer's that are kept: as many as any transport has.
pub(crate) const DATA: usize = 56;

/// How far it is; nothing goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Stage {
    /// The path to the peer is looked for, or the peer's answer is waited for.
    Begun,
    /// There is a path.
    Found,
    /// There is a connection.
    Connected,
    /// There is none any more, or never will be.
    Over,
}

struct Stand {
    stage: Stage,
    /// Why it is over.
    error: Error,
    data: [u8; DATA],
    qp: Option<(Arc<Qp>, Access)>,
}

impl Stand {
    fn hear(&mut self, data: &[u8]) {
        for (to, from) in self.data.iter_mut().zip(data) {
            *to = *from;
        }
    }
}

/// What both the thread and rdma_cm know of a connection.
#[pin_data]
pub(super) struct Meeting {
    #[pin]
    stand: SpinLock<Stand>,
    /// Given with each change.
    #[pin]
    changed: TimedCompletion,
}

impl Meeting {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                stand <- new_spinlock!(
                    Stand {
                        stage: Stage::Begun,
                        error: ENOTCONN,
                        data: [0; DATA],
                        qp: None,
                    },
                    "kofi::by_hand::Meeting"
                ),
                changed <- TimedCompletion::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// From now on there is a queue pair.
    pub(super) fn equip(&self, qp: Arc<Qp>, access: Access) {
        self.stand.lock().qp = Some((qp, access));
    }

    /// Forgets the queue pair.
    pub(super) fn leave(&self) {
        let qp = self.stand.lock().qp.take();
        drop(qp);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.stand.lock().stage == Stage::Connected
    }

    /// What the peer has said.
    pub(super) fn data(&self) -> [u8; DATA] {
        self.stand.lock().data
    }

    /// Waits until it is as far. May sleep.
    ///
    /// # Errors
    ///
    /// Why it is over instead; `EINTR`.
    pub(super) fn wait(&self, stage: Stage, go_on: GoOn) -> Result {
        loop {
            {
                let stand = self.stand.lock();
                match stand.stage {
                    Stage::Over => return Err(stand.error),
                    now if now >= stage => return Ok(()),
                    _ => {}
                }
            }
            if self.changed.wait_timeout(msecs_to_jiffies(TICK_MS)) == 0 && !go_on() {
                return Err(EINTR);
            }
        }
    }

    fn step(&self, stage: Stage, data: &[u8]) {
        {
            let mut stand = self.stand.lock();
            if stand.stage >= stage {
                return;
            }
            stand.stage = stage;
            stand.hear(data);
        }
        self.changed.complete();
    }

    /// The peer has said something, and nothing else comes of that.
    fn hear(&self, data: &[u8]) {
        self.stand.lock().hear(data);
    }

    fn fail(&self, error: Error) {
        let qp = {
            let mut stand = self.stand.lock();
            if stand.stage == Stage::Over {
                return;
            }
            stand.stage = Stage::Over;
            stand.error = error;
            stand.qp.as_ref().map(|(qp, _)| qp.clone())
        };
        // What is posted comes back as cancelled, which wakes who waits for it.
        if let Some(qp) = qp {
            let _ = qp.to_error();
        }
        self.changed.complete();
    }

    /// Has the queue pair send.
    pub(super) fn make_ready(&self, id: &CmIdRef, param: &ConnParam<'_>) -> Result {
        let equipped = {
            let stand = self.stand.lock();
            stand.qp.as_ref().map(|(qp, access)| (qp.clone(), *access))
        };
        let (qp, access) = equipped.ok_or(ENOTCONN)?;
        id.move_qp_to_rts(&qp, param, access)
    }

    /// The peer has answered.
    fn complete(&self, id: &LockedCmId, conn: &ConnParam<'_>) -> Result {
        let done = self
            .make_ready(id, conn)
            .and_then(|()| id.complete_response());
        match done {
            Ok(()) => self.step(Stage::Connected, conn.private_data),
            Err(_) => drop(id.reject(&[], REJ_CONSUMER_DEFINED)),
        }
        done
    }
}

impl CmHandler for Meeting {
    fn handle_event(self: Arc<Self>, id: &LockedCmId, event: CmEvent<'_>) {
        let done = match event {
            CmEvent::AddrResolved => id.resolve_route(RESOLVE_MS),
            CmEvent::RouteResolved => {
                self.step(Stage::Found, &[]);
                Ok(())
            }
            CmEvent::ConnectResponse { conn } => self.complete(id, &conn),
            CmEvent::Established { conn } => {
                self.step(Stage::Connected, conn.private_data);
                Ok(())
            }
            CmEvent::Rejected { private_data, .. } => {
                self.hear(private_data);
                Err(ECONNREFUSED)
            }
            CmEvent::Failed { kind, status } => Err(failure(kind, status)),
            CmEvent::Disconnected => {
                // The answer that rdma_cm waits for; there is nobody left to complain to.
                let _ = id.disconnect();
                Err(ENOTCONN)
            }
            CmEvent::DeviceRemoval => Err(ENODEV),
            CmEvent::ConnectRequest { .. }
            | CmEvent::AddrChange
            | CmEvent::TimewaitExit
            | CmEvent::Other(_) => Ok(()),
        };
        if let Err(error) = done {
            self.fail(error);
        }
    }
}

impl RemovalNotifier for Meeting {
    fn notify_removal(&self) {
        self.fail(ENODEV);
    }
}

fn failure(kind: CmFailure, status: i32) -> Error {
    match (kind, Error::from_errno(status)) {
        (_, error) if error == ECONNREFUSED => ECONNREFUSED,
        (CmFailure::Connect, error) if error == ETIMEDOUT => ETIMEDOUT,
        (CmFailure::Connect, _) => ECONNABORTED,
        _ => EHOSTUNREACH,
    }
}
