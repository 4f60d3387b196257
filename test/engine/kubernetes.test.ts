import { skipWithoutKubernetes } from '../kit/kubernetes/programs.ts';
import { engineConformance } from './conformance.ts';
import { kubernetesUnderTest } from './kubernetes-under-test.ts';
import { tinyImageMissing } from './tiny-image.ts';

engineConformance('kubernetes, the first half', kubernetesUnderTest, {
  skip: tinyImageMissing() ?? skipWithoutKubernetes(),
  half: 'first',
  parts: { forgetsStopped: true },
});
