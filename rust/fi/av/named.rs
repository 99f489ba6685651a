// SPDX-License-Identifier: GPL-2.0

//! Tables that several vectors share under a name. The first open creates the table, the last close removes
//! it. The registry's lock guards the list and the open counts.

use super::{
    table::Table,
    Type, //
};
use crate::{
    fi::prelude::*,
    util::{
        downcast::downcast,
        registry, //
    },
};
use kernel::str::CString;

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 255;

/// Scope of a vector's name: the domains of one name in one network namespace with one address format.
pub(super) struct NameScope<'a> {
    /// Address of the namespace, which the open domain keeps alive.
    pub(super) net: usize,
    pub(super) domain: &'a CStr,
    pub(super) format: u32,
    pub(super) name: &'a CStr,
}

/// The attributes that all vectors of a name have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TableAttr {
    pub(super) kind: Type,
    pub(super) rx_ctx_bits: u32,
}

pub(super) struct NamedTable {
    net: usize,
    domain: CString,
    format: u32,
    name: CString,
    pub(super) attr: TableAttr,
    pub(super) table: Arc<Table>,
    open_count: Atomic<u32>,
}

impl NamedTable {
    fn matches(&self, scope: &NameScope<'_>) -> bool {
        self.net == scope.net
            && *self.name == *scope.name
            && *self.domain == *scope.domain
            && self.format == scope.format
    }
}

/// A counted reference of one vector to a named table.
pub(super) struct NamedTableRef(pub(super) Arc<NamedTable>);

impl NamedTableRef {
    /// Opens a name: finds the table, or creates it with the attributes that `choose_attr` returns, given the
    /// type of an existing table. May sleep.
    ///
    /// # Errors
    ///
    /// -FI_EINVAL for an empty or too long name, and if the existing table has other attributes; -FI_ENOENT
    /// if the table does not exist and must not be created; -FI_ENOMEM.
    pub(super) fn open(
        scope: &NameScope<'_>,
        choose_attr: impl FnOnce(Option<Type>) -> Result<TableAttr>,
        may_create: bool,
    ) -> Result<Self> {
        let len = scope.name.to_bytes().len();
        Errno::EINVAL.when(len == 0 || len > MAX_NAME)?;
        registry::with_list(|entries| {
            let mut known = entries
                .iter()
                .filter_map(|entry| downcast::<NamedTable>(entry.clone()));
            if let Some(shared) = known.find(|shared| shared.matches(scope)) {
                Errno::EINVAL.when(choose_attr(Some(shared.attr.kind))? != shared.attr)?;
                let _ = shared.open_count.fetch_add(1u32, Relaxed);
                return Ok(Self(shared));
            }
            Errno::ENOENT.when(!may_create)?;
            let shape = choose_attr(None)?;
            let shared = new_arc(NamedTable {
                net: scope.net,
                domain: CString::try_from(scope.domain)?,
                format: scope.format,
                name: CString::try_from(scope.name)?,
                attr: shape,
                table: shape.new_table()?,
                open_count: Atomic::new(1),
            })?;
            entries.push(shared.clone(), GFP_KERNEL)?;
            Ok(Self(shared))
        })
    }
}

impl Drop for NamedTableRef {
    fn drop(&mut self) {
        registry::with_list(|entries| {
            if self.0.open_count.fetch_sub(1u32, Relaxed) > 1 {
                return;
            }
            let ours = Arc::as_ptr(&self.0).cast::<()>();
            entries.retain(|entry| Arc::as_ptr(entry).cast::<()>() != ours);
        });
    }
}
