// SPDX-License-Identifier: GPL-2.0

//! Fake kernel for unit tests: a few names, any number of equal offers, sample objects and a test
//! thread.

mod objects;
mod test_thread;

use crate::{
    abi::{
        set_string,
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
    kernel::{
        struct_size,
        Kernel, //
    },
    runner::Runner,
};
use rustix::io::Errno;
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    sync::atomic::{
        AtomicBool,
        Ordering, //
    },
};
use test_thread::TestThread;

/// Error numbers that the fake kernel has text for.
const ERRORS: [(u64, &str); 2] = [(98, "Address already in use"), (111, "Connection refused")];

/// Number of offers that appear at a time.
const GROWTH: usize = 4;

pub struct FakeKernel {
    pub abi: u32,
    /// Errno that every request fails with.
    pub errno: Option<Errno>,
    pub offers: Cell<usize>,
    /// Number of the next requests for offers after each of which `GROWTH` offers appear.
    pub growths_left: Cell<usize>,
    /// Length of the buffer of each request for offers.
    pub capacities: RefCell<Vec<usize>>,
    /// Queries in the order in which they came.
    pub queries: RefCell<Vec<Query>>,
    pub objects: RefCell<Vec<Object>>,
    pub thread: RefCell<TestThread>,
    /// Flag that ctrl-c sets. The interrupt comes during request `interrupt_at` to watch a test;
    /// the first request is 1.
    pub stop: AtomicBool,
    pub interrupt_at: Cell<Option<usize>>,
}

impl Default for FakeKernel {
    fn default() -> Self {
        Self {
            abi: KOFI_ABI_VERSION,
            errno: None,
            offers: Cell::new(0),
            growths_left: Cell::new(0),
            capacities: RefCell::default(),
            queries: RefCell::default(),
            objects: RefCell::default(),
            thread: RefCell::default(),
            stop: AtomicBool::new(false),
            interrupt_at: Cell::new(None),
        }
    }
}

impl FakeKernel {
    pub fn with_offers(count: usize) -> Self {
        Self {
            offers: Cell::new(count),
            ..Self::default()
        }
    }

    /// Returns a kernel with the sample objects open.
    pub fn with_objects() -> Self {
        Self {
            objects: RefCell::new(objects::sample_objects()),
            ..Self::default()
        }
    }

    /// Increases all cumulative values of the objects.
    pub fn advance(&self) {
        objects::advance(&mut self.objects.borrow_mut());
    }

    pub fn runner(&self) -> Runner<'_> {
        Runner {
            kernel: self,
            stop: &self.stop,
            show_progress: false,
        }
    }

    /// Fails with the forced errno, or if the size in a request is not that of its struct.
    fn check_request<T>(&self, size: u32) -> Result<(), Errno> {
        match self.errno {
            Some(errno) => Err(errno),
            None if size != struct_size::<T>() => Err(Errno::INVAL),
            None => Ok(()),
        }
    }
}

impl Kernel for FakeKernel {
    fn ioctl_version(&self, version: &mut Version) -> Result<(), Errno> {
        self.check_request::<Version>(version.size)?;
        version.abi = self.abi;
        version.api = 0x0001_0011;
        Ok(())
    }

    fn ioctl_text(&self, text: &mut Text) -> Result<(), Errno> {
        self.check_request::<Text>(text.size)?;
        let value = text_of(TextType(text.type_), text.value).ok_or(Errno::INVAL)?;
        set_string(&mut text.text, &value, "").map_err(|_| Errno::INVAL)
    }

    fn ioctl_info(&self, query: &mut Query, buf: &mut [Offer]) -> Result<(), Errno> {
        self.check_request::<Query>(query.size)?;
        self.queries.borrow_mut().push(*query);
        self.capacities.borrow_mut().push(buf.len());
        let count = self.offers.get();
        if count == 0 {
            return Err(Errno::NODATA);
        }
        let fits = buf.len().min(count);
        buf[..fits].fill(sample_offer());
        query.count = count.try_into().map_err(|_| Errno::OVERFLOW)?;
        if let Some(left) = self.growths_left.get().checked_sub(1) {
            self.growths_left.set(left);
            self.offers.set(count + GROWTH);
        }
        Ok(())
    }

    fn open_perf(&self) -> Result<(), Error> {
        Ok(())
    }

    fn ioctl_start(&self, test: &mut Test) -> Result<(), Errno> {
        self.check_request::<Test>(test.size)?;
        self.thread.borrow_mut().start(test)
    }

    fn ioctl_watch(&self, watch: &mut Watch, buf: &mut [u64]) -> Result<(), Errno> {
        self.check_request::<Watch>(watch.size)?;
        let mut thread = self.thread.borrow_mut();
        if self.interrupt_at.get() == Some(thread.watch_msecs.len() + 1) {
            self.stop.store(true, Ordering::Relaxed);
            thread.signals = 1;
        }
        thread.watch(watch, buf)
    }

    fn ioctl_stop(&self, stop: &mut Stop) -> Result<(), Errno> {
        self.check_request::<Stop>(stop.size)?;
        self.thread.borrow_mut().stop()
    }

    fn ioctl_objects(&self, request: &mut Objects, buf: &mut [Object]) -> Result<(), Errno> {
        self.check_request::<Objects>(request.size)?;
        let objects = self.objects.borrow();
        for (to, from) in buf.iter_mut().zip(&*objects) {
            *to = *from;
        }
        request.count = objects.len().try_into().map_err(|_| Errno::OVERFLOW)?;
        Ok(())
    }

    fn ioctl_addresses(&self, request: &mut Addresses, buf: &mut [Address]) -> Result<(), Errno> {
        self.check_request::<Addresses>(request.size)?;
        objects::addresses(&self.objects.borrow(), request, buf)
    }
}

/// Returns the text of a number: of flags with the unnamed bits as one number, or of a value.
fn text_of(kind: TextType, value: u64) -> Option<String> {
    let values = match kind {
        TextType::KOFI_TEXT_EP_TYPE => {
            &["FI_EP_UNSPEC", "FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"][..]
        }
        TextType::KOFI_TEXT_PROTOCOL => &["FI_PROTO_UNSPEC", "FI_PROTO_RDMA_CM_IB_RC"],
        TextType::KOFI_TEXT_ADDR_FORMAT => &["FI_FORMAT_UNSPEC", "FI_SOCKADDR", "FI_SOCKADDR_IN"],
        TextType::KOFI_TEXT_THREADING => &["FI_THREAD_UNSPEC", "FI_THREAD_SAFE"],
        TextType::KOFI_TEXT_PROGRESS => &[
            "FI_PROGRESS_UNSPEC",
            "FI_PROGRESS_AUTO",
            "FI_PROGRESS_MANUAL",
        ],
        TextType::KOFI_TEXT_AV_TYPE => &["FI_AV_UNSPEC", "FI_AV_MAP"],
        TextType::KOFI_TEXT_RESOURCE_MGMT => &["FI_RM_UNSPEC", "FI_RM_DISABLED", "FI_RM_ENABLED"],
        TextType::KOFI_TEXT_ATOMIC_OP => &[
            "FI_MIN", "FI_MAX", "FI_SUM", "FI_BXOR", "FI_CSWAP", //
        ],
        TextType::KOFI_TEXT_DATATYPE => {
            &["FI_INT8", "FI_UINT8", "FI_INT16", "FI_UINT16", "FI_UINT64"]
        }
        TextType::KOFI_TEXT_OBJECT => &objects::KINDS,
        TextType::KOFI_TEXT_STATE => &objects::STATES,
        TextType::KOFI_TEXT_VALUE => &objects::VALUES,
        TextType::KOFI_TEXT_ERROR => {
            let known = ERRORS.iter().find(|(number, _)| *number == value);
            return Some(known.map_or_else(
                || format!("unknown ({value:#x})"),
                |(_, text)| (*text).to_string(),
            ));
        }
        _ => return Some(flag_text(flag_table(kind)?, value)),
    };
    let name = usize::try_from(value).ok().and_then(|at| values.get(at));
    Some(name.map_or_else(|| format!("unknown ({value:#x})"), ToString::to_string))
}

fn flag_table(kind: TextType) -> Option<&'static [(u32, &'static str)]> {
    Some(match kind {
        TextType::KOFI_TEXT_CAPS => &[
            (1, "FI_MSG"),
            (2, "FI_RMA"),
            (4, "FI_ATOMIC"),
            (8, "FI_READ"),
            (9, "FI_WRITE"),
            (10, "FI_RECV"),
            (11, "FI_SEND"),
            (12, "FI_REMOTE_READ"),
            (13, "FI_REMOTE_WRITE"),
            (21, "FI_FENCE"),
        ],
        TextType::KOFI_TEXT_MODE => &[(59, "FI_CONTEXT"), (56, "FI_RX_CQ_DATA"), (63, "FI_OWN")],
        TextType::KOFI_TEXT_OP_FLAGS => &[(24, "FI_COMPLETION"), (28, "FI_DELIVERY_COMPLETE")],
        TextType::KOFI_TEXT_ORDER => &[(7, "FI_ORDER_SAW"), (8, "FI_ORDER_SAS")],
        TextType::KOFI_TEXT_MR_MODE => &[
            (2, "FI_MR_LOCAL"),
            (4, "FI_MR_VIRT_ADDR"),
            (6, "FI_MR_PROV_KEY"),
        ],
        _ => return None,
    })
}

fn flag_text(names: &[(u32, &str)], value: u64) -> String {
    let mut rest = value;
    let mut set = Vec::new();
    for (bit, name) in names {
        if value & 1 << bit != 0 {
            rest &= !(1 << bit);
            set.push((*name).to_string());
        }
    }
    if rest != 0 {
        set.push(format!("{rest:#x}"));
    }
    set.join(", ")
}

/// Returns an offer in which fields that could be mistaken for each other have different values.
pub fn sample_offer() -> Offer {
    let tx_caps = 1 << 1 | 1 << 2 | 1 << 8 | 1 << 9 | 1 << 11 | 1 << 21;
    let rx_caps = 1 << 1 | 1 << 2 | 1 << 10 | 1 << 12 | 1 << 13;
    let order = 1 << 7 | 1 << 8;
    let mut offer = Offer {
        caps: tx_caps | rx_caps,
        tx_caps,
        mode: 1 << 63,
        tx_mode: 1 << 59,
        tx_op_flags: 1 << 24 | 1 << 28,
        tx_msg_order: order,
        tx_comp_order: 1 << 7,
        tx_inject_size: 128,
        tx_size: 1024,
        tx_iov_limit: 16,
        tx_rma_iov_limit: 2,
        rx_caps,
        rx_mode: 1 << 56,
        rx_op_flags: 1 << 24,
        rx_msg_order: 0,
        rx_comp_order: 1 << 8,
        rx_total_buffered_recv: 64,
        rx_size: 512,
        rx_iov_limit: 8,
        ep_max_msg_size: 8_388_608,
        ep_msg_prefix_size: 40,
        ep_max_order_raw_size: 4_194_304,
        ep_max_order_war_size: 1_048_576,
        ep_max_order_waw_size: 2_097_152,
        ep_mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa,
        ep_tx_ctx_cnt: 1,
        ep_rx_ctx_cnt: 3,
        domain_caps: 1 << 12,
        domain_mode: 1 << 59 | 1 << 56,
        domain_mr_key_size: 4,
        domain_cq_data_size: 5,
        domain_cq_cnt: 65536,
        domain_ep_cnt: 32768,
        domain_tx_ctx_cnt: 32766,
        domain_rx_ctx_cnt: 32767,
        domain_max_ep_tx_ctx: 1,
        domain_max_ep_rx_ctx: 6,
        domain_max_ep_stx_ctx: 7,
        domain_max_ep_srx_ctx: 9,
        domain_cntr_cnt: 131_072,
        domain_mr_iov_limit: 512,
        domain_max_err_data: 56,
        domain_mr_cnt: 524_288,
        addr_format: 2,
        ep_type: 1,
        ep_protocol: 1,
        ep_protocol_version: 10,
        domain_threading: 1,
        domain_control_progress: 1,
        domain_data_progress: 2,
        domain_av_type: 1,
        domain_resource_mgmt: 2,
        domain_mr_mode: 1 << 4 | 1 << 6,
        fabric_prov_version: 1,
        fabric_api_version: 0x0001_0011,
        ..Offer::default()
    };
    for (field, value) in [
        (&mut offer.src_addr[..], "fi_sockaddr_in://10.0.0.1:0"),
        (&mut offer.domain_name, "rxe0"),
        (&mut offer.fabric_name, "RoCE"),
        (&mut offer.prov_name, "verbs"),
    ] {
        set_string(field, value, "").unwrap();
    }
    offer
}
