// SPDX-License-Identifier: GPL-2.0

//! Trees of the open objects, with the kernel's names for their kinds, states and values.

use crate::{
    abi::{
        self,
        Object,
        ObjectValue,
        TextType, //
    },
    error::Error,
    kernel::Kernel,
};
use serde::{
    ser::SerializeMap,
    Serialize,
    Serializer, //
};
use std::collections::{
    btree_map::Entry,
    BTreeMap, //
};

/// Cache of the kernel's texts for numbers.
#[derive(Default)]
struct TextCache(BTreeMap<(u32, u32), String>);

impl TextCache {
    fn get(&mut self, kernel: &dyn Kernel, kind: TextType, number: u32) -> Result<String, Error> {
        Ok(match self.0.entry((kind.0, number)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => new.insert(kernel.text(kind, number.into())?).clone(),
        })
    }
}

/// A numeric property of an object.
pub struct Value {
    pub id: ObjectValue,
    pub name: String,
    pub number: u64,
}

impl Value {
    /// Returns whether the value counts events since the object was opened, and so has a rate.
    pub fn is_cumulative(&self) -> bool {
        let cumulative = ObjectValue::KOFI_VALUE_SENDS.0..=ObjectValue::KOFI_VALUE_OVERRUNS.0;
        cumulative.contains(&self.id.0)
    }
}

/// Module or process that opened an object.
#[derive(Clone, Serialize)]
pub struct Owner {
    pub name: String,
    /// Process id, or `None` for a module.
    pub pid: Option<u32>,
}

impl Owner {
    /// Formats the name, and the id of a process.
    pub fn label(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} {pid}", self.name),
            None => self.name.clone(),
        }
    }
}

/// An object and the objects opened from it.
#[derive(Serialize)]
pub struct ObjectNode {
    pub id: u64,
    pub kind: String,
    pub name: Option<String>,
    pub owner: Owner,
    pub state: String,
    pub local: Option<String>,
    pub peer: Option<String>,
    #[serde(serialize_with = "as_map")]
    pub values: Vec<Value>,
    pub children: Vec<ObjectNode>,
}

fn as_map<S: Serializer>(values: &[Value], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(values.len()))?;
    for value in values {
        map.serialize_entry(&value.name, &value.number)?;
    }
    map.end()
}

impl ObjectNode {
    fn new(kernel: &dyn Kernel, cache: &mut TextCache, object: &Object) -> Result<Self, Error> {
        let pairs = object.what.iter().zip(&object.values);
        let count = usize::try_from(object.value_count).unwrap_or(usize::MAX);
        let mut values = Vec::new();
        for (&id, &number) in pairs.take(count) {
            values.push(Value {
                id: ObjectValue(id),
                name: cache.get(kernel, TextType::KOFI_TEXT_VALUE, id)?,
                number,
            });
        }
        Ok(Self {
            id: object.id,
            kind: cache.get(kernel, TextType::KOFI_TEXT_OBJECT, object.kind)?,
            name: non_empty(abi::get_string(&object.name)),
            owner: Owner {
                name: abi::get_string(&object.owner),
                pid: Some(object.pid).filter(|&pid| pid != 0),
            },
            state: cache.get(kernel, TextType::KOFI_TEXT_STATE, object.state)?,
            local: abi::get_address(&object.local_addr),
            peer: abi::get_address(&object.peer_addr),
            values,
            children: Vec::new(),
        })
    }

    /// Returns one value, if the object has it.
    pub fn value(&self, id: ObjectValue) -> Option<u64> {
        let found = self.values.iter().find(|value| value.id == id);
        found.map(|value| value.number)
    }

    /// Removes the objects that `keep` does not select, except parents of selected objects. Returns
    /// whether any object of this tree is left.
    pub fn prune(&mut self, keep: &dyn Fn(&ObjectNode) -> bool) -> bool {
        self.children.retain_mut(|child| child.prune(keep));
        keep(self) || !self.children.is_empty()
    }
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Reads all open objects. The roots are objects without a parent.
pub fn read_objects(kernel: &dyn Kernel) -> Result<Vec<ObjectNode>, Error> {
    let mut cache = TextCache::default();
    let mut roots = Vec::new();
    let mut children: BTreeMap<u64, Vec<ObjectNode>> = BTreeMap::new();
    let objects = kernel.objects()?;
    // The kernel lists a parent before its children, so the reverse order completes the children
    // first.
    for object in objects.iter().rev() {
        let mut node = ObjectNode::new(kernel, &mut cache, object)?;
        node.children = children.remove(&node.id).unwrap_or_default();
        node.children.reverse();
        match object.parent {
            0 => roots.push(node),
            parent => children.entry(parent).or_default().push(node),
        }
    }
    roots.reverse();
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    fn ids(nodes: &[ObjectNode]) -> Vec<u64> {
        let all = nodes
            .iter()
            .flat_map(|node| [vec![node.id], ids(&node.children)].concat());
        all.collect()
    }

    #[test]
    fn objects_are_children_of_their_parents() {
        let roots = read_objects(&FakeKernel::with_objects()).unwrap();
        assert_eq!(ids(&roots), [1, 2, 3, 4, 5, 6, 7, 9, 12, 8, 13]);
        assert_eq!(roots.len(), 2);
        assert_eq!(roots[0].children.len(), 3);
    }

    #[test]
    fn pruning_keeps_the_parents_of_selected_objects() {
        let mut roots = read_objects(&FakeKernel::with_objects()).unwrap();
        roots.retain_mut(|root| root.prune(&|node| node.kind == "av_set"));
        assert_eq!(ids(&roots), [1, 4, 9, 12]);
    }

    #[test]
    fn values_are_found_by_id() {
        let roots = read_objects(&FakeKernel::with_objects()).unwrap();
        let queue = &roots[0].children[0];
        assert_eq!(queue.value(ObjectValue::KOFI_VALUE_DEPTH), Some(2));
        assert_eq!(queue.value(ObjectValue::KOFI_VALUE_SIZE), None);
    }
}
