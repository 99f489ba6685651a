// SPDX-License-Identifier: GPL-2.0

//! Names of `fi` that most files of it, of the providers and of the C API use, beside those of the crate's prelude.

pub(crate) use super::{
    introspect::ObjectInfo,
    memory::{
        Context,
        Descriptor,
        Memory,
        Segment, //
    },
    object::{
        new_arc,
        pin_arc,
        ChildRef, //
    }, //
};
pub(crate) use crate::prelude::*;
