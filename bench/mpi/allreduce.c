/*
 * The peer of mare.collective: MPI_Allreduce of BYTES bytes of doubles, summed, ROUNDS times, after a tenth of them to warm up.
 * mpirun … allreduce BYTES ROUNDS prints "rounds N /s", from rank 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3) return 2;
  int count = atoi(argv[1]) / 8, rounds = atoi(argv[2]);
  double *in = malloc((size_t)count * 8), *out = malloc((size_t)count * 8), start = 0;
  for (int i = 0; i < count; i++) in[i] = rank + i;
  for (int i = -rounds / 10; i < rounds; i++) {
    if (i == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("rounds %.6g /s\n", rounds / (MPI_Wtime() - start));
  double sum = size * (size - 1) / 2.0 + (double)size * (count - 1);
  if (out[count - 1] != sum) return 1;
  MPI_Finalize();
  return 0;
}
