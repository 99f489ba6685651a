/* SPDX-License-Identifier: GPL-2.0 */
/* Reduction operators of collectives, on integer datatypes */

#ifndef SAMPLES_REDUCTION_H
#define SAMPLES_REDUCTION_H

#include <linux/minmax.h>
#include <rdma/fi_atomic.h>

#define REDUCE(type, data, src, count, op)						\
do {											\
	type *_data = (data);								\
	const type *_src = (src);							\
											\
	for (size_t i = 0; i < (count); i++)						\
		switch (op) {								\
		case FI_MIN:								\
			_data[i] = min(_data[i], _src[i]);				\
			break;								\
		case FI_MAX:								\
			_data[i] = max(_data[i], _src[i]);				\
			break;								\
		case FI_SUM:								\
			_data[i] = (type)((u64)_data[i] + (u64)_src[i]);		\
			break;								\
		case FI_PROD:								\
			_data[i] = (type)((u64)_data[i] * (u64)_src[i]);		\
			break;								\
		case FI_LOR:								\
			_data[i] = _data[i] || _src[i];				\
			break;								\
		case FI_LAND:								\
			_data[i] = _data[i] && _src[i];				\
			break;								\
		case FI_BOR:								\
			_data[i] |= _src[i];						\
			break;								\
		case FI_BAND:								\
			_data[i] &= _src[i];						\
			break;								\
		case FI_BXOR:								\
			_data[i] ^= _src[i];						\
			break;								\
		default:								\
			break;								\
		}									\
} while (0)

/* Reduces each element of @src into the element of @data with the same index. */
static void reduce(enum fi_datatype datatype, enum fi_op op, void *data, const void *src,
		   size_t count)
{
	switch (datatype) {
	case FI_INT8:
		REDUCE(s8, data, src, count, op);
		break;
	case FI_UINT8:
		REDUCE(u8, data, src, count, op);
		break;
	case FI_INT16:
		REDUCE(s16, data, src, count, op);
		break;
	case FI_UINT16:
		REDUCE(u16, data, src, count, op);
		break;
	case FI_INT32:
		REDUCE(s32, data, src, count, op);
		break;
	case FI_UINT32:
		REDUCE(u32, data, src, count, op);
		break;
	case FI_INT64:
		REDUCE(s64, data, src, count, op);
		break;
	case FI_UINT64:
		REDUCE(u64, data, src, count, op);
		break;
	default:
		break;
	}
}

static bool has_op(enum fi_op op)
{
	switch (op) {
	case FI_MIN:
	case FI_MAX:
	case FI_SUM:
	case FI_PROD:
	case FI_LOR:
	case FI_LAND:
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR:
		return true;
	default:
		return false;
	}
}

/* Returns the size of an element in bytes, or 0 for a datatype that is not supported. */
static size_t datatype_size(enum fi_datatype datatype)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		return 1;
	case FI_INT16:
	case FI_UINT16:
		return 2;
	case FI_INT32:
	case FI_UINT32:
		return 4;
	case FI_INT64:
	case FI_UINT64:
		return 8;
	default:
		return 0;
	}
}

#endif /* SAMPLES_REDUCTION_H */
