// SPDX-License-Identifier: GPL-2.0

//! The enabling of an endpoint: its queue pair is created, and bound to completion queues, counters and a
//! shared receive context.

use super::{
    super::{
        super::common::stats::Violations,
        cntr::WqCounters,
        conn_state::ConnState,
        cq::WakePolicy,
        prelude::*,
        srx::{
            Srx,
            SrxAttachment, //
        },
        wq::{
            PostTarget,
            WrTemplate, //
        },
        wr_ring::InjectBufs, //
    },
    BoundObjects, //
};
use crate::{
    fi::{
        provider::Bindings,
        srx::SharedReceive, //
    },
    rdma::{
        qp::{
            QpCaps,
            QpEvent,
            QpEventHandler, //
        },
        wr_template::{
            RecvTemplate,
            SendTemplate, //
        },
    },
    util::downcast::downcast, //
};

impl Endpoint {
    /// Creates the queue pair, registers with the completion queues, and lets receives be posted.
    pub(super) fn create_and_bind(&self, bindings: Bindings) -> Result {
        let others = self.domain.enter_exclusive();
        let eq = bindings.eq.ok_or(Errno::ENOEQ)?;
        let tx = bindings.tx_cq.ok_or(Errno::ENOCQ)?;
        let rx = bindings.rx_cq.ok_or(Errno::ENOCQ)?;
        let tx_cq = Cq::from_provider(tx.queue.core())?;
        let rx_cq = Cq::from_provider(rx.queue.core())?;
        let srx = bindings
            .srx
            .as_ref()
            .map(|srx| self.srx_from_provider(srx))
            .transpose()?;
        self.regions.enable(&self.pd, &self.rq)?;
        let (qp, inject_bufs) = self.create_qp(&tx_cq, &rx_cq, srx.as_deref())?;
        // The port may turn out to be another one; see `start_connect`.
        qp.init(1, self.attrs.access)?;

        let counters = Arc::new(bindings.counters, GFP_KERNEL)?;
        let new_wq_counters = |is_counting: bool| -> Result<Option<KBox<WqCounters>>> {
            let new = || KBox::new(WqCounters::new(counters.clone()), GFP_KERNEL);
            Ok(is_counting.then(new).transpose()?)
        };
        let (counts_tx, counts_rx) = (counters.has_transmits(), counters.has_receives());
        let send_template = WrTemplate::Send(SendTemplate::new(qp.clone())?);
        let recv_template = WrTemplate::Recv(RecvTemplate::new(qp.clone())?);
        // A waiter on a counter has to be woken by each counted completion.
        let wake_policy = match self.attrs.solicited_only && !counts_rx {
            true => WakePolicy::SolicitedOnly,
            false => WakePolicy::Always,
        };
        let tx_counting = (new_wq_counters(counts_tx)?, WakePolicy::Always);
        let rx_counting = (new_wq_counters(counts_rx)?, wake_policy);
        // SAFETY: Nothing has been posted to the queue pair.
        let undo = |cq: &Cq, wq_id| unsafe { cq.remove_wq(wq_id, &mut |_| {}, &others) };
        // SAFETY: The queue pair is new and completes there. An endpoint is enabled once, or again
        // after `remove_wq`.
        let tx_id = unsafe { tx_cq.add_wq(&self.sq, tx_counting, &others) }?;
        // SAFETY: As above.
        let rx_id = unsafe { rx_cq.add_wq(&self.rq, rx_counting, &others) }
            .inspect_err(|_| undo(&tx_cq, tx_id))?;
        if let Some(srx) = &srx {
            self.attach_srx(srx, (&rx_cq, rx_id), qp.raw_addr(), &others)
                .inspect_err(|_| {
                    undo(&rx_cq, rx_id);
                    undo(&tx_cq, tx_id);
                })?;
        }
        let mut link = self.conn.lock();
        link.qp = Some(qp.clone());
        link.objects = Some(BoundObjects {
            eq,
            _cqs: [tx.queue, rx.queue],
            _counters: counters,
            _srx: bindings.srx,
            _counter_readers: (counts_tx || counts_rx).then(|| self.domain.enter_exclusive()),
        });
        drop(link);
        let target = PostTarget {
            template: send_template,
            qp: qp.clone(),
            cq: tx_cq,
            wq_id: tx_id,
            is_selective: tx.selective,
            has_counters: counts_tx,
        };
        self.sq
            .set_target(target, self.attrs.inject_size as u32, inject_bufs, &others);
        match srx {
            None => {
                let target = PostTarget {
                    template: recv_template,
                    qp,
                    cq: rx_cq,
                    wq_id: rx_id,
                    is_selective: rx.selective,
                    has_counters: counts_rx,
                };
                self.rq.set_target(target, 0, None, &others);
            }
            Some(srx) => {
                let attachment = SrxAttachment::new(
                    srx,
                    (rx_cq, rx_id),
                    qp.raw_addr(),
                    rx.selective,
                    self.source,
                );
                self.rq.attach_srx(attachment, qp.qp_num());
            }
        }
        self.sq.enable_cas_progress(self.domain.serial.clone());
        self.transition(ConnState::Open, ConnState::Enabled, None);
        Ok(())
    }

    /// Creates the queue pair, and buffers for injected data if the queue pair does not take it
    /// inline.
    fn create_qp(
        &self,
        send_cq: &Cq,
        recv_cq: &Cq,
        srx: Option<&Srx>,
    ) -> Result<(Arc<Qp>, Option<InjectBufs>)> {
        let caps = QpCaps {
            // Includes the work requests beyond the depth; see `extra_cq_entries`.
            max_send_wr: self.attrs.tx_size + self.sq.extra_cq_entries(),
            max_recv_wr: match srx {
                None => self.attrs.rx_size + self.rq.extra_cq_entries(),
                Some(_) => 0,
            },
            max_send_sge: self.attrs.tx_iov_limit as u32,
            max_recv_sge: self.attrs.rx_iov_limit as u32,
            max_inline_data: self.attrs.inject_size as u32,
            max_rdma_ctxs: 0,
        };
        let srq = srx.map(Srx::srq).transpose()?;
        let new_qp = |caps: &QpCaps| {
            let events = EpQpEvents {
                device: self.pd.device().device().clone(),
                rq: self.rq.clone(),
                violations: self.violations.clone(),
            };
            let (send_cq, recv_cq) = (send_cq.ib_cq().clone(), recv_cq.ib_cq().clone());
            Qp::new(self.pd.clone(), send_cq, recv_cq, srq.clone(), caps, events)
        };
        let qp = match new_qp(&caps) {
            // Not every device takes that much inline, and devices do not report their limit
            // beforehand.
            Err(error) if error != ENOMEM => new_qp(&QpCaps {
                max_inline_data: 0,
                ..caps
            }),
            made => made,
        }?;
        let inject_bufs = match qp.caps().max_inline_data as usize {
            inline if inline >= self.attrs.inject_size => None,
            _ => Some(self.sq.ring.new_inject_bufs(self.attrs.inject_size)?),
        };
        Ok((Arc::new(qp, GFP_KERNEL)?, inject_bufs))
    }

    /// Returns the verbs part of the shared receive context that the endpoint is bound to.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for a context of another provider or device.
    fn srx_from_provider(&self, shared: &SharedReceive) -> Result<Arc<Srx>> {
        let srx: Option<Arc<Srx>> = downcast(shared.core().clone().into_any());
        srx.filter(|srx| Arc::ptr_eq(&srx.pd, &self.pd))
            .ok_or(Errno::EINVAL)
    }

    /// Lets messages of the queue pair `qp` take receives from `srx`. These complete in `cq`, where
    /// the receive queue has the index `place`.
    fn attach_srx(
        &self,
        srx: &Srx,
        (cq, place): (&Arc<Cq>, WqId),
        qp: usize,
        others: &ExclusiveGuard,
    ) -> Result {
        srx.attach_endpoint(&self.rq, cq, others)?;
        let known = cq.map_srx_qp(place, qp, others);
        known.inspect_err(|_| srx.detach_endpoint(&self.rq, cq, others))
    }
}

/// Handler of the queue pair's events. Completions and rdma_cm report everything else that the
/// endpoint needs, except violations by the peer and the end of shared receives.
struct EpQpEvents {
    device: Arc<Device>,
    rq: Arc<WorkQueue>,
    violations: Arc<Violations>,
}

impl QpEventHandler for EpQpEvents {
    fn handle_event(&self, number: u32, event: QpEvent) {
        match event {
            QpEvent::PeerViolation(text) => self.violations.record(
                &self.device.name(),
                fmt!("endpoint {}: its connection is closed: {}", number, text),
            ),
            QpEvent::LastWqeReached => self.rq.set_drained(),
            _ => {}
        }
    }
}
