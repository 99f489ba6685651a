/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before arch/um/os-Linux/signal.c in the test kernel. With CONFIG_SMP, user-mode Linux blocks the signal of
 * interrupts between CPUs by a system call of the host in each local_irq_disable(), and unblocks it in each
 * local_irq_enable(). A guest with one CPU gets no such interrupts: it saves a quarter of its time without the calls.
 */
#ifdef __UM_HOST__	/* not in the other files of this name */
#include <os.h>
#include <smp.h>

#define os_local_ipi_disable()			\
	do {					\
		if (uml_ncpus > 1)		\
			os_local_ipi_disable();	\
	} while (0)
#define os_local_ipi_enable()			\
	do {					\
		if (uml_ncpus > 1)		\
			os_local_ipi_enable();	\
	} while (0)
#endif
