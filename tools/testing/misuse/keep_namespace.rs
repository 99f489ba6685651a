// SPDX-License-Identifier: GPL-2.0

//! E0597: a query cannot outlive the reference on the network namespace that it searches.

use kernel::sync::aref::ARef;
use kofi::{
    fi::info::Query,
    util::namespace::Namespace, //
};

/// Searches the namespace. The caller's reference has to live as long as the query.
pub fn search(net: &ARef<Namespace>, look: fn(&Query<'_>)) {
    let query;
    {
        #[cfg(misuse)]
        let net = ARef::clone(net);
        query = Query {
            node: None,
            service: None,
            source: false,
            hints: None,
            net: Some(&net),
        };
    }
    look(&query);
}
