// SPDX-License-Identifier: GPL-2.0

//! Open objects of the fake kernel, and the names of their kinds, states and values.

use crate::abi::{
    set_string,
    Address,
    Addresses,
    Object,
    ObjectKind,
    ObjectState,
    ObjectValue,
    KOFI_ADDRESS_USER_ID, //
};
use rustix::io::Errno;

pub const KINDS: [&str; 12] = [
    "fabric", "domain", "ep", "pep", "cq", "eq", "cntr", "av", "av_set", "mr", "poll_set",
    "wait_set",
];

pub const STATES: [&str; 9] = [
    "open",
    "enabled",
    "listening",
    "connecting",
    "connected",
    "no-transmit",
    "no-receive",
    "lost",
    "shut",
];

pub const VALUES: [&str; 30] = [
    "tx_cq",
    "rx_cq",
    "eq",
    "tx_size",
    "rx_size",
    "size",
    "depth",
    "count",
    "errors",
    "addresses",
    "members",
    "length",
    "tx_depth",
    "rx_depth",
    "sends",
    "receives",
    "writes",
    "reads",
    "atomics",
    "tx_done",
    "rx_done",
    "tx_bytes",
    "rx_bytes",
    "tx_errors",
    "rx_errors",
    "tx_again",
    "rx_again",
    "entries",
    "callbacks",
    "overruns",
];

/// Returns an object that a module has opened.
fn object(id: u64, parent: u64, kind: ObjectKind, values: &[(ObjectValue, u64)]) -> Object {
    let mut object = Object {
        id,
        parent,
        kind: kind.0,
        ..Object::default()
    };
    for (at, &(what, value)) in values.iter().enumerate() {
        object.what[at] = what.0;
        object.values[at] = value;
        object.value_count += 1;
    }
    set_string(&mut object.owner, "msg_server", "").unwrap();
    object
}

fn with_name(mut object: Object, name: &str) -> Object {
    set_string(&mut object.name, name, "").unwrap();
    object
}

fn with_state(mut object: Object, state: ObjectState, local: &str, peer: &str) -> Object {
    object.state = state.0;
    set_string(&mut object.local_addr, local, "").unwrap();
    set_string(&mut object.peer_addr, peer, "").unwrap();
    object
}

/// Makes a process the owner of an object.
fn owned_by_process(mut object: Object) -> Object {
    object.pid = 4711;
    set_string(&mut object.owner, "kofi", "").unwrap();
    object
}

/// Returns the objects of a server module with one client, and those of a process that has started
/// a test.
pub fn sample_objects() -> Vec<Object> {
    use ObjectKind as Kind;
    use ObjectState as State;
    use ObjectValue as Value;
    const SERVER: &str = "fi_sockaddr_in://10.0.0.1:7471";
    const CLIENT: &str = "fi_sockaddr_in://10.0.0.2:40001";

    let endpoint = [
        (Value::KOFI_VALUE_TX_CQ, 5),
        (Value::KOFI_VALUE_RX_CQ, 5),
        (Value::KOFI_VALUE_EQ, 2),
        (Value::KOFI_VALUE_TX_SIZE, 256),
        (Value::KOFI_VALUE_RX_SIZE, 128),
        (Value::KOFI_VALUE_TX_DEPTH, 3),
        (Value::KOFI_VALUE_SENDS, 20_000),
        (Value::KOFI_VALUE_WRITES, 400),
        (Value::KOFI_VALUE_READS, 50),
        (Value::KOFI_VALUE_ATOMICS, 6),
        (Value::KOFI_VALUE_TX_DONE, 20_453),
        (Value::KOFI_VALUE_TX_BYTES, 81_920_000),
        (Value::KOFI_VALUE_TX_ERRORS, 1),
        (Value::KOFI_VALUE_TX_AGAIN, 70),
        (Value::KOFI_VALUE_RX_DEPTH, 127),
        (Value::KOFI_VALUE_RECEIVES, 20_128),
        (Value::KOFI_VALUE_RX_DONE, 20_001),
        (Value::KOFI_VALUE_RX_BYTES, 1_280_064),
        (Value::KOFI_VALUE_RX_ERRORS, 2),
    ];
    let queue = [
        (Value::KOFI_VALUE_SIZE, 1088),
        (Value::KOFI_VALUE_ENTRIES, 40_454),
        (Value::KOFI_VALUE_ERRORS, 3),
        (Value::KOFI_VALUE_CALLBACKS, 900),
        (Value::KOFI_VALUE_OVERRUNS, 2),
    ];
    vec![
        with_name(object(1, 0, Kind::KOFI_OBJECT_FABRIC, &[]), "RoCE"),
        object(2, 1, Kind::KOFI_OBJECT_EQ, &[(Value::KOFI_VALUE_DEPTH, 2)]),
        with_state(
            object(3, 1, Kind::KOFI_OBJECT_PASSIVE_EP, &[]),
            State::KOFI_STATE_LISTENING,
            SERVER,
            "",
        ),
        with_name(object(4, 1, Kind::KOFI_OBJECT_DOMAIN, &[]), "rxe0"),
        object(5, 4, Kind::KOFI_OBJECT_CQ, &queue),
        object(
            6,
            4,
            Kind::KOFI_OBJECT_MR,
            &[(Value::KOFI_VALUE_LENGTH, 65536)],
        ),
        with_state(
            object(7, 4, Kind::KOFI_OBJECT_EP, &endpoint),
            State::KOFI_STATE_CONNECTED,
            SERVER,
            CLIENT,
        ),
        owned_by_process(with_name(
            object(8, 0, Kind::KOFI_OBJECT_FABRIC, &[]),
            "iWARP",
        )),
        with_name(
            object(
                9,
                4,
                Kind::KOFI_OBJECT_AV,
                &[(Value::KOFI_VALUE_ADDRESSES, 3)],
            ),
            "ranks",
        ),
        object(
            12,
            9,
            Kind::KOFI_OBJECT_AV_SET,
            &[(Value::KOFI_VALUE_MEMBERS, 2)],
        ),
        owned_by_process(object(
            13,
            8,
            Kind::KOFI_OBJECT_EQ,
            &[(Value::KOFI_VALUE_DEPTH, 0)],
        )),
    ]
}

/// Increases all cumulative values by half. Other values stay the same.
pub fn advance(objects: &mut [Object]) {
    let first = ObjectValue::KOFI_VALUE_SENDS.0;
    for object in objects {
        for (&what, value) in object.what.iter().zip(&mut object.values) {
            if what >= first {
                *value += *value / 2;
            }
        }
    }
}

/// Number of addresses in an address vector.
const ADDRESS_COUNT: u16 = 300;

/// Lists the addresses of an address vector. The index of each address is twice its port, minus
/// two.
pub fn addresses(
    objects: &[Object],
    request: &mut Addresses,
    buf: &mut [Address],
) -> Result<(), Errno> {
    let object = objects.iter().find(|object| object.id == request.id);
    if object.ok_or(Errno::NOENT)?.kind != ObjectKind::KOFI_OBJECT_AV.0 {
        return Err(Errno::INVAL);
    }
    request.count = 0;
    let first = u16::try_from(request.at / 2).map_err(|_| Errno::INVAL)? + 1;
    for (port, to) in (first..=ADDRESS_COUNT).zip(buf) {
        let at = u64::from(port) * 2 - 2;
        *to = Address {
            fi_addr: at,
            uses: u32::from(port % 3) + 1,
            ..Address::default()
        };
        if port % 2 == 1 {
            to.flags = KOFI_ADDRESS_USER_ID;
            to.user_id = 4096 * u64::from(port);
        }
        let text = format!("fi_sockaddr_in://10.0.0.1:{port}");
        set_string(&mut to.addr, &text, "").unwrap();
        request.at = at + 1;
        request.count += 1;
    }
    // The next address has an even index.
    request.at += request.at % 2;
    Ok(())
}
